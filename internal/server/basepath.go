package server

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// belowBasePath makes every path of next answer below a base path, too, for a proxy that does not remove its prefix. The handlers see no
// difference: what they send to browsers and to other instances does not depend on where a proxy has them.
func belowBasePath(base string, next http.Handler) http.Handler {
	if base == "" || base == config.NoBasePath {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, below := cutBasePath(base, r.URL); below {
			stripped := *r
			stripped.URL = u
			r = &stripped
		}
		next.ServeHTTP(w, r)
	})
}

// cutBasePath returns a URL without the base path that its path begins with. The base path counts only as it is configured: a proxy that
// compares paths may understand another way to write it differently.
func cutBasePath(base string, u *url.URL) (*url.URL, bool) {
	path, below := strings.CutPrefix(u.Path, base)
	if !below || !strings.HasPrefix(path, "/") {
		return nil, false
	}
	raw, written := strings.CutPrefix(u.RawPath, base)
	if u.RawPath != "" && (!written || !strings.HasPrefix(raw, "/")) {
		return nil, false
	}
	cut := *u
	cut.Path, cut.RawPath = path, raw
	return &cut, true
}
