package server

import (
	"errors"
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func (s *Server) health(*http.Request) (any, error) { return &wire.HealthResponse{Status: "ok"}, nil }

func (s *Server) version(*http.Request) (any, error) { return &s.Version, nil }

// ready answers whether new work should come here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	out := &wire.ReadyResponse{Ready: true}
	switch {
	case s.stopping.Load():
		out.Ready, out.Reason = false, "it is shutting down"
	default:
		if err := s.Ping(r.Context()); err != nil {
			out.Ready, out.Reason = false, "the shared store does not answer"
			var known store.Trouble
			if errors.As(err, &known) {
				out.Reason = string(known)
			}
		}
	}
	status := http.StatusOK
	if !out.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, out)
}

func (s *Server) spec31(w http.ResponseWriter, _ *http.Request) { s.describe(w, s.OpenAPI) }

func (s *Server) socketSpec(w http.ResponseWriter, _ *http.Request) { s.describe(w, s.AsyncAPI) }

// describe answers with a description.
func (s *Server) describe(w http.ResponseWriter, made func() ([]byte, error)) {
	description, err := made()
	if err != nil {
		s.Log.Error("the doors cannot be described", "error", err)
		s.fail(w, wire.Errorf(wire.Internal, "the description could not be made; it was logged"))
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(description)
}
