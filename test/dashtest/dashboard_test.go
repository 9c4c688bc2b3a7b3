package dashtest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// TestPages visits every page in both languages and themes, in several widths and with every role: axe finds nothing, the console has no
// error and no policy is violated.
func TestPages(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, conversations)
	c.runProgram("pages.mjs", c.balancer.URL())
}

// TestActions performs every action, and checks that a viewer has none of them.
func TestActions(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, conversations)
	c.runProgram("actions.mjs", c.balancer.URL())
}

// TestNavigation: filters, focus, titles and positions follow the person through the pages.
func TestNavigation(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, conversations)
	c.runProgram("navigation.mjs", c.balancer.URL())
}

// TestCounts: every count of every page opens exactly the rows that it counted.
func TestCounts(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, conversations)
	c.runProgram("counts.mjs", c.balancer.URL())
}

// TestHealing: a killed instance, an outage of Redis and a restart of all instances are shown, and the page recovers without being loaded
// again.
func TestHealing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3, conversations)
	c.runProgram("healing.mjs", c.balancer.URL())
}

// TestBasePath: the dashboard works behind a proxy that removes a prefix of the path, and behind one that does not.
func TestBasePath(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1, conversations)
	target, err := url.Parse(c.balancer.URL())
	c.must(err)
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host
		},
	}
	mux := http.NewServeMux()
	mux.Handle("/removed/", http.StripPrefix("/removed", proxy))
	mux.Handle(basePath+"/", proxy)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/favicon") {
			t.Errorf("a request for %s left the prefix", r.URL)
		}
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, prefix := range []string{"/removed", basePath} {
		t.Run(strings.Trim(prefix, "/"), func(t *testing.T) {
			c := *c
			c.t = t
			c.runProgram("prefix.mjs", server.URL+prefix)
		})
	}
}
