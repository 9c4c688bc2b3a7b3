package config

import (
	"regexp"
	"slices"
	"strings"
)

// NoBasePath is the base path of a scheduler that answers at its own paths only.
const NoBasePath = "/"

// maxBasePath is the maximum length of a base path.
const maxBasePath = 128

// basePathPattern is the pattern of base paths: segments that are the same whether or not they are encoded, and that no program resolves.
var basePathPattern = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// ownSegments are the first segments of the scheduler's own paths. A base path that begins with one would hide them.
var ownSegments = []string{"api", "asyncapi.yaml", "dashboard", "healthz", "login", "logout", "metrics", "openapi.yaml", "readyz", "v1", "ws"}

// OwnSegments returns the first segments of paths that the scheduler has itself, which a base path cannot begin with.
func OwnSegments() []string { return slices.Clone(ownSegments) }

// validateBasePath checks the path below which everything answers.
func (s *Server) validateBasePath(v *validator) {
	const key = "server.base_path"
	if s.BasePath == NoBasePath {
		return
	}
	if !basePathPattern.MatchString(s.BasePath) || len(s.BasePath) > maxBasePath {
		v.require(false, key, "must be /, or a path such as /lingua: at most %d characters, segments of A-Z a-z 0-9 . _ ~ - that do not begin with a dot, and no slash at its end; not %q", maxBasePath, s.BasePath)
		return
	}
	first, _, _ := strings.Cut(s.BasePath[1:], "/")
	v.require(!slices.Contains(ownSegments, first), key, "must not begin with /%s, which is a path of the scheduler itself; use another, such as /lingua", first)
}
