package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/lingua-scheduler/lingua/web/dashboard"
	"github.com/lingua-scheduler/lingua/wire"
)

// dashboardPolicy lets the page load its own files and talk to its own server, and nothing else.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// dashboardTypes are the media types of the files.
var dashboardTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

// dashboardFile is a file as it is sent.
type dashboardFile struct {
	media      string
	etag       string
	immutable  bool // its name changes with its content
	body       []byte
	compressed []byte // with gzip; nil: that is not smaller
}

// dashboardFiles reads all files, once for all servers. They are a part of the program: an error is one of its build.
var dashboardFiles = sync.OnceValue(func() map[string]*dashboardFile {
	all := make(map[string]*dashboardFile)
	err := fs.WalkDir(dashboard.Files, dashboardRoot, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(dashboard.Files, name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, dashboardRoot+"/")
		media, known := dashboardTypes[path.Ext(name)]
		if !known {
			return fmt.Errorf("%s has an unknown type", name)
		}
		sum := sha256.Sum256(body)
		f := &dashboardFile{media: media, etag: `"` + hex.EncodeToString(sum[:12]) + `"`, immutable: strings.HasPrefix(name, "assets/"),
			body: body}
		if c := compress(body); len(c) < len(body) {
			f.compressed = c
		}
		all[name] = f
		return nil
	})
	if err != nil {
		panic("the dashboard: " + err.Error())
	}
	return all
})

// dashboardRoot is the directory of the built files.
const dashboardRoot = "dist"

// compress compresses a file.
func compress(body []byte) []byte {
	var buf bytes.Buffer
	w, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression) // the level is valid
	_, _ = w.Write(body)                                    // into memory
	_ = w.Close()
	return buf.Bytes()
}

func (h *docHandlers) dashboardRoutes() []route {
	return []route{
		{
			method: "GET", path: "/dashboard", rule: everyone, page: true, handler: handler{serve: h.redirect},
		},
		{
			method: "GET", path: "/dashboard/{file...}", rule: everyone, page: true, handler: handler{serve: h.serveDashboard},
		},
	}
}

// redirect adds the slash below which the relative URLs of the page work. It is relative too: the path that the browser sees may have a
// prefix.
func (h *docHandlers) redirect(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", "dashboard/")
	w.WriteHeader(http.StatusFound)
}

// serve sends a file.
func (h *docHandlers) serveDashboard(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	f := h.files[name]
	if f == nil {
		writeWireError(w, wire.Errorf(wire.NotFound, "the dashboard has no such file: reload the page, it may be of another version"))
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", dashboardPolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Content-Type", f.media)
	header.Set("Vary", "Accept-Encoding")
	etag := f.etagFor(r)
	header.Set("Etag", etag)
	if f.immutable {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		header.Set("Cache-Control", "no-cache")
	}
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.body
	if f.compresses(r) {
		header.Set("Content-Encoding", "gzip")
		body = f.compressed
	}
	w.WriteHeader(http.StatusOK)
	writeBody(w, body)
}

// compresses reports whether the answer to a request is compressed.
func (f *dashboardFile) compresses(r *http.Request) bool {
	return f.compressed != nil && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
}

// etagFor returns the ETag of the answer to a request. A compressed answer has another one: its bytes are others.
func (f *dashboardFile) etagFor(r *http.Request) string {
	if f.compresses(r) {
		return strings.TrimSuffix(f.etag, `"`) + `-gzip"`
	}
	return f.etag
}
