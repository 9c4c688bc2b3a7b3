package server

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/wire"
)

func (s *Server) health(*http.Request) (any, error) { return &wire.HealthResponse{Status: "ok"}, nil }

func (s *Server) version(*http.Request) (any, error) { return &s.Version, nil }

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
	respond(w, description)
}
