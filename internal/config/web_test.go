package config

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// webRules are the rules of what browsers and proxies use.
var webRules = []rule{
	{"server.base_path", "empty", func(c *Config) { c.Server.BasePath = "" }},
	{"server.base_path", "relative", func(c *Config) { c.Server.BasePath = "lingua" }},
	{"server.base_path", "a slash at its end", func(c *Config) { c.Server.BasePath = "/lingua/" }},
	{"server.base_path", "another host", func(c *Config) { c.Server.BasePath = "//evil.example" }},
	{"server.base_path", "out of itself", func(c *Config) { c.Server.BasePath = "/lingua/.." }},
	{"server.base_path", "encoded", func(c *Config) { c.Server.BasePath = "/%6cingua" }},
	{"server.base_path", "a query", func(c *Config) { c.Server.BasePath = "/lingua?x" }},
	{"server.base_path", "a line", func(c *Config) { c.Server.BasePath = "/lingua\n" }},
	{"server.base_path", "another separator", func(c *Config) { c.Server.BasePath = `/a\b` }},
	{"server.base_path", "a URL", func(c *Config) { c.Server.BasePath = "https://example.com/lingua" }},
	{"server.base_path", "too long", func(c *Config) { c.Server.BasePath = "/" + strings.Repeat("a", maxBasePath) }},
	{"server.base_path", "a path of its own", func(c *Config) { c.Server.BasePath = "/v1" }},
	{"auth.anonymous_role", "unknown", anonymousRole("minter", "127.0.0.1/32")},
	{"auth.anonymous_role", "from nowhere", anonymousRole("viewer")},
	{"auth.anonymous_role", "without keys", func(c *Config) { c.Auth.AnonymousRole, c.Auth.AnonymousFrom = "viewer", []string{"127.0.0.1/32"} }},
	{"auth.anonymous_role", "the name of a key", func(c *Config) {
		anonymousRole("viewer", "127.0.0.1/32")(c)
		c.Auth.Keys = []Key{{Name: "anonymous", Role: "viewer", SHA256: []string{strings.Repeat("a", 64)}}}
	}},
	{"auth.anonymous_from", "an address", anonymousRole("viewer", "127.0.0.1")},
	{"auth.anonymous_from", "everyone", anonymousRole("viewer", "0.0.0.0/0")},
	{"auth.anonymous_from", "everyone, in IPv6", anonymousRole("operator", "::/0")},
	{"auth.anonymous_from", "half of everyone", anonymousRole("operator", "128.0.0.0/1")},
	{"auth.anonymous_from", "everyone, though it has no role", func(c *Config) { c.Auth.AnonymousFrom = []string{"0.0.0.0/0"} }},
	{"auth.anonymous_hosts", "any", anonymousHost("*")},
	{"auth.anonymous_hosts", "empty", anonymousHost("")},
	{"auth.anonymous_hosts", "with a port", anonymousHost("ops.example.com:443")},
	{"auth.anonymous_hosts", "a URL", anonymousHost("https://ops.example.com")},
	{"auth.anonymous_hosts", "a domain", anonymousHost(".example.com")},
	{"dashboard.links", "too many", func(c *Config) {
		for i := range maxLinks + 1 {
			c.Dashboard.Links = append(c.Dashboard.Links, Link{strconv.Itoa(i), "https://a"})
		}
	}},
	{"dashboard.links[0].name", "none", func(c *Config) { c.Dashboard.Links = []Link{{"", "https://a"}} }},
	{"dashboard.links[0].name", "a line", func(c *Config) { c.Dashboard.Links = []Link{{"a\nb", "https://a"}} }},
	{"dashboard.links[0].name", "another direction", func(c *Config) { c.Dashboard.Links = []Link{{"a\u202eb", "https://a"}} }},
	{"dashboard.links[0].name", "too long", func(c *Config) { c.Dashboard.Links = []Link{{strings.Repeat("é", maxLinkName+1), "https://a"}} }},
	{"dashboard.links[0].name", "a space", func(c *Config) { c.Dashboard.Links = []Link{{" a", "https://a"}} }},
	{"dashboard.links[1].name", "twice", func(c *Config) { c.Dashboard.Links = []Link{{"a", "https://a"}, {"a", "https://b"}} }},
	{"dashboard.links[0].url", "none", func(c *Config) { c.Dashboard.Links = []Link{{"a", ""}} }},
	{"server.base_path", "below a path of its own", func(c *Config) { c.Server.BasePath = "/dashboard/lingua" }},
}

// anonymousRole gives requests without a credential a role.
func anonymousRole(role string, from ...string) func(*Config) {
	return func(c *Config) {
		c.Auth.OperatorKeys, c.Auth.AnonymousRole, c.Auth.AnonymousFrom = []string{"0123456789abcdef"}, role, from
	}
}

// anonymousHost names a host for such requests.
func anonymousHost(name string) func(*Config) {
	return func(c *Config) {
		anonymousRole("viewer", "127.0.0.1/32")(c)
		c.Auth.AnonymousHosts = []string{name}
	}
}

// TestAnonymousRoleWarns: a role for requests without a credential is valid with keys and a proxy, and warned of.
func TestAnonymousRoleWarns(t *testing.T) {
	t.Parallel()
	u := newUnvalidated()
	anonymousHost("ops.example.com")(&u.Config)
	_, warnings, err := u.Validate()
	if err != nil || !slices.ContainsFunc(warnings, func(w string) bool {
		return strings.HasPrefix(w, "auth.anonymous_role: ") && strings.Contains(w, "127.0.0.1/32")
	}) {
		t.Errorf("%v, %q", err, warnings)
	}
	u = newUnvalidated()
	if _, warnings, err = u.Validate(); err != nil || len(warnings) != 0 {
		t.Errorf("by default: %v, %q", err, warnings)
	}
}

// TestBasePaths checks which base paths are valid.
func TestBasePaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/", "/lingua", "/a/b.c/d_e~f-g", "/v2", "/apis", "/" + strings.Repeat("a", maxBasePath-1)} {
		c := Default()
		c.Server.BasePath = path
		if found := validationErrors(&c); found != nil {
			t.Errorf("%s: %v", path, found)
		}
	}
}

// TestLinkURLs checks which links a page may show.
func TestLinkURLs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"javascript:alert(1)", "JavaScript:alert(1)", " javascript:alert(1)", "java\nscript:alert(1)", "javascript://a/%0aalert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd",
		"ftp://a", "//a", "/a", "a", "https:", "https://", "https:///a", "https:a", "http://:80", "https://user@a", "https://user:secret@a", "https://a/ b", "https://a\tb",
		`https:\\a`, "https://a\u0000", "https://a/\u202e", "https://[::1", "https://" + strings.Repeat("a", maxLinkURL),
	} {
		if isLinkURL(text) {
			t.Errorf("%q is accepted", text)
		}
	}
	for _, text := range []string{"https://grafana.example.com/d/lingua?orgId=1#top", "http://10.0.0.1:3000", "https://[fd00::1]/a", "HTTPS://a"} {
		if !isLinkURL(text) {
			t.Errorf("%q is refused", text)
		}
	}
}
