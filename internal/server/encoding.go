package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// buffers are reused for the bodies of requests and answers.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxPooledBuffer is the largest buffer that is reused.
const maxPooledBuffer = 64 << 10

func putBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxPooledBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// responder writes the errors of handlers, and logs those that are not the client's fault.
type responder struct {
	log *slog.Logger
}

// writeError answers with an error. An error that is not a wire.Error is logged, and answered with INTERNAL.
func (p responder) writeError(w http.ResponseWriter, err error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		p.log.Error("a request failed", "error", err)
		e = wire.Errorf(wire.Internal, "something went wrong here, not with your request; it was logged")
	}
	writeWireError(w, e)
}

// storeDown is the answer when the store does not answer. The error is logged.
func (p responder) storeDown(operation string, err error) *wire.Error {
	p.log.Warn("the store did not answer", "operation", operation, "error", err)
	return store.Unavailable()
}

// handler handles the requests of a route. The types of their bodies and of the answers are described in /openapi.yaml; nil: there is none,
// or it is not JSON.
type handler struct {
	serve   http.HandlerFunc
	in, out reflect.Type
}

// described describes another type of body than the one that is read, which has further names for its fields.
func described[In any](h handler) handler {
	h.in = reflect.TypeFor[In]()
	return h
}

// handleBody makes a handler of a function that takes a JSON body.
func handleBody[In, Out any](p responder, fn func(ctx context.Context, in *In) (*Out, error)) handler {
	serve := func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := readBody(w, r, &in); err != nil {
			p.writeError(w, err)
			return
		}
		out, err := fn(r.Context(), &in)
		if err != nil {
			p.writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
	return handler{serve, reflect.TypeFor[In](), reflect.TypeFor[Out]()}
}

// handle makes a handler of a function that takes no body.
func handle[Out any](p responder, fn func(r *http.Request) (*Out, error)) handler {
	serve := func(w http.ResponseWriter, r *http.Request) {
		out, err := fn(r)
		if err != nil {
			p.writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, out)
	}
	return handler{serve: serve, out: reflect.TypeFor[Out]()}
}

// readBody checks the media type and the size of a body, and decodes it.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	if !isJSON(r.Header.Get("Content-Type")) {
		return wire.Errorf(wire.UnsupportedMediaType, "send JSON, with Content-Type: application/json")
	}
	allowBody(w)
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

func writeWireError(w http.ResponseWriter, e *wire.Error) {
	if c, ok := w.(*call); ok {
		c.failure = e
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	writeJSON(w, wirespec.Status(e.Code), e)
}

// writeJSON writes a JSON answer.
func writeJSON(w http.ResponseWriter, status int, out any) {
	buf := buffers.Get().(*bytes.Buffer)
	defer putBuffer(buf)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		http.Error(w, `{"error":"INTERNAL","detail":"the answer could not be encoded"}`, http.StatusInternalServerError)
		return
	}
	writeEncoded(w, status, buf.Bytes())
}

// Values of headers, which all answers share: net/http copies them before it adds others.
var (
	typeJSON = []string{"application/json"}
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	onlyTLS  = []string{"max-age=31536000"}
)

// writeEncoded writes an answer that is JSON already, in one part or several.
func writeEncoded(w http.ResponseWriter, status int, body ...[]byte) {
	size := 0
	for _, part := range body {
		size += len(part)
	}
	h := w.Header()
	h["Content-Type"] = typeJSON
	h["Content-Length"] = []string{strconv.Itoa(size)}
	w.WriteHeader(status)
	writeBody(w, body...)
}

// maxPage is the maximum number of entries on a page of a list.
const maxPage = 1000

// listQuery is the query of a list: its filters, and which page is requested.
type listQuery struct {
	url.Values
	limit int
	after []string // the last entry of the page before; nil: the first page is requested
}

// parseList parses the query of a list. An unknown filter is an error: ignored, it would list everything. A cursor is valid only
// for the list that made it, and names the last entry of its page, so that no entry is listed twice or left out while others come
// and go.
func parseList(q url.Values, list string, fields, defaultLimit int, filters ...string) (listQuery, *wire.Error) {
	filters = append(filters, "limit", "cursor")
	for name := range q {
		if !slices.Contains(filters, name) {
			return listQuery{}, wire.Invalid("query", "there are no other filters than "+strings.Join(filters, ", "))
		}
	}
	p := listQuery{Values: q, limit: defaultLimit}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return p, wire.Invalid("limit", "must be a number between 1 and %d", maxPage)
		}
		p.limit = n
	}
	if text := q.Get("cursor"); text != "" {
		plain, err := base64.RawURLEncoding.DecodeString(text)
		parts := strings.Split(string(plain), cursorSeparator)
		if err != nil || len(parts) != fields+1 || parts[0] != list {
			return p, errCursor()
		}
		p.after = parts[1:]
	}
	return p, nil
}

func errCursor() *wire.Error {
	return wire.Invalid("cursor", "must be next_cursor of an answer of the same list")
}

const cursorSeparator = "\x00"

// encodeCursor makes the cursor that names the last entry of a page of a list.
func encodeCursor(list string, last ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(append([]string{list}, last...), cursorSeparator)))
}
