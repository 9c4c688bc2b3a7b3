package server_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestDashboardFiles: the page and everything that it names are served without a credential, with headers that keep it to itself.
func TestDashboardFiles(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	page := ts.requestWith(nil, "GET", "/dashboard/", nil)
	if page.status != http.StatusOK || !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || page.header.Get("Cache-Control") != "no-cache" {
		t.Fatalf("%d %v", page.status, page.header)
	}
	policy := page.header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") || strings.Contains(string(page.body), "<style") {
		t.Errorf("the policy is %q", policy)
	}
	names := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(string(page.body), -1)
	if len(names) < 3 {
		t.Fatalf("the page names %d files, want a script, a style sheet and an icon: all with relative URLs\n%s", len(names), page.body)
	}
	for _, name := range names {
		f := ts.requestWith(nil, "GET", "/dashboard/"+name[1], nil)
		if f.status != http.StatusOK || f.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", name[1], f.status, f.header)
		}
		if strings.HasPrefix(name[1], "assets/") != strings.Contains(f.header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: Cache-Control: %s", name[1], f.header.Get("Cache-Control"))
		}
		if again := ts.requestWith(nil, "GET", "/dashboard/"+name[1], nil, "If-None-Match", f.header.Get("Etag")); again.status != http.StatusNotModified || len(again.body) != 0 {
			t.Errorf("%s again: %d", name[1], again.status)
		}
	}
	for _, missing := range []string{"/dashboard/assets/none.js", "/dashboard/dist/index.html", "/dashboard/%2e%2e/go.mod"} {
		ts.requestWith(nil, "GET", missing, nil).expectError(wire.NotFound)
	}
}

// TestDashboardRedirect: the redirect is relative, so that it holds behind a proxy that adds a prefix.
func TestDashboardRedirect(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Get(ts.url + "/dashboard")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "dashboard/" {
		t.Errorf("%d to %q", resp.StatusCode, resp.Header.Get("Location"))
	}
}
