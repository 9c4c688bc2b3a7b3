package config

import (
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
