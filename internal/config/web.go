package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// Dashboard configures the dashboard.
type Dashboard struct {
	Links []Link `toml:"links" doc:"A link that the dashboard shows to everyone who uses it, such as to Grafana, alerts or a runbook. Repeat the table for each, at most 8."`
}

// Link is a link of the dashboard.
type Link struct {
	Name string `toml:"name" doc:"The text of the link."`
	URL  string `toml:"url" doc:"An https or http URL, without a user."`
}

const (
	maxLinks    = 8
	maxLinkName = 40
	maxLinkURL  = 2048
)

// validate checks the links. A page turns them into elements that people click on: a URL of any other scheme could be a script.
func (d *Dashboard) validate(v *validator) {
	const key = "dashboard.links"
	v.require(len(d.Links) <= maxLinks, key, "has %d links; the maximum is %d", len(d.Links), maxLinks)
	seen := make(map[string]bool)
	for i, l := range d.Links {
		at := fmt.Sprintf("%s[%d]", key, i)
		v.require(isPlainText(l.Name) && strings.TrimSpace(l.Name) == l.Name, at+".name",
			"must be 1 to %d characters that can be seen, without a space at either end", maxLinkName)
		v.require(!seen[l.Name], at+".name", "there is another link with the name %q", l.Name)
		v.require(isLinkURL(l.URL), at+".url",
			"must be an https or http URL with a host, such as https://grafana.example.com/d/lingua, at most %d characters, without a "+
				"user or a password", maxLinkURL)
		seen[l.Name] = true
	}
}

// isPlainText reports whether a text is a short line that looks like what it is: no control characters, and none that change its direction.
func isPlainText(text string) bool {
	return text != "" && utf8.ValidString(text) && utf8.RuneCountInString(text) <= maxLinkName &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// isLinkURL reports whether a text is a URL that is safe to show as a link.
func isLinkURL(text string) bool {
	if len(text) > maxLinkURL || strings.ContainsFunc(text,
		func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == '\\' }) {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil && u.Opaque == ""
}

// NoBasePath is the base path of a scheduler that answers at its own paths only.
const NoBasePath = "/"

// maxBasePath is the maximum length of a base path.
const maxBasePath = 128

// basePathPattern is the pattern of base paths: segments that are the same whether or not they are encoded, and that no program resolves.
var basePathPattern = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// ownSegments are the first segments of the scheduler's own paths. A base path that begins with one would hide them.
var ownSegments = []string{"api", "asyncapi.yaml", "dashboard", "healthz", "login", "logout", "metrics", "openapi.yaml", "readyz", "v1",
	"ws"}

// OwnSegments returns the first segments of paths that the scheduler has itself, which a base path cannot begin with.
func OwnSegments() []string { return slices.Clone(ownSegments) }

// validateBasePath checks the path below which everything answers.
func (s *Server) validateBasePath(v *validator) {
	const key = "server.base_path"
	if s.BasePath == NoBasePath {
		return
	}
	if !basePathPattern.MatchString(s.BasePath) || len(s.BasePath) > maxBasePath {
		v.require(false, key, "must be /, or a path such as /lingua: at most %d characters, segments of A-Z a-z 0-9 . _ ~ - that do not "+
			"begin with a dot, and no slash at its end; not %q", maxBasePath, s.BasePath)
		return
	}
	first, _, _ := strings.Cut(s.BasePath[1:], "/")
	v.require(!slices.Contains(ownSegments, first), key,
		"must not begin with /%s, which is a path of the scheduler itself; use another, such as /lingua", first)
}

// warnAnonymous returns a warning if requests without a credential have a role.
func (u *Unvalidated) warnAnonymous() string {
	a := &u.Config.Auth
	if a.AnonymousRole == auth.NoRole || a.AnonymousRole == "" {
		return ""
	}
	return fmt.Sprintf("%s: every request without a credential from %s has the role %s: only a proxy that authenticates people may "+
		"connect from there",
		u.sourceOf("auth.anonymous_role"), strings.Join(a.AnonymousFrom, ", "), a.AnonymousRole)
}
