package config

import (
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
