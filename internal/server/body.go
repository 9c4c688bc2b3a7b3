package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// buffers are reused for bodies in and out.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// keepBuffer is the largest buffer worth keeping.
const keepBuffer = 64 << 10

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= keepBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// post makes a handler of a function that takes a JSON body.
func post[T any](s *Server, fn func(ctx context.Context, in *T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		if err := readBody(w, r, &in); err != nil {
			s.fail(w, err)
			return
		}
		out, err := fn(r.Context(), &in)
		if err != nil {
			s.fail(w, err)
			return
		}
		write(w, http.StatusOK, out)
	}
}

// get makes a handler of a function that takes no body.
func get(s *Server, fn func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out, err := fn(r)
		if err != nil {
			s.fail(w, err)
			return
		}
		write(w, http.StatusOK, out)
	}
}

// readBody checks the form of a body and decodes it.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	if !isJSON(r.Header.Get("Content-Type")) {
		return wire.Errorf(wire.UnsupportedMediaType, "send JSON and say so: Content-Type: application/json")
	}
	awaitBody(w)
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, wire.MaxBody)); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return wire.Errorf(wire.PayloadTooLarge, "the body is larger than %d bytes", wire.MaxBody)
		}
		return wire.Errorf(wire.InvalidRequest, "the body could not be read to its end")
	}
	return wire.Decode(buf.Bytes(), into)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	return err == nil && media == "application/json" && (!given || strings.EqualFold(charset, "utf-8"))
}

// fail answers with an error. What is not a wire.Error is this side's own fault.
func (s *Server) fail(w http.ResponseWriter, err error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		s.Log.Error("a request failed", "error", err)
		e = wire.Errorf(wire.Internal, "something went wrong here, not with your request; it was logged")
	}
	writeError(w, e)
}

func writeError(w http.ResponseWriter, e *wire.Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	write(w, wirespec.Status(e.Code), e)
}

// write sends a JSON answer.
func write(w http.ResponseWriter, status int, out any) {
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		http.Error(w, `{"error":"INTERNAL","detail":"the answer could not be written"}`, http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(buf.Len()))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	respond(w, buf.Bytes())
}

func join(list []string) string { return strings.Join(list, " or ") }
