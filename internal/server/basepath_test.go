package server_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

const basePath = "/ops/lingua"

// atBasePath sets the base path.
func atBasePath(c *config.Config) { c.Server.BasePath = basePath }

// startProxy starts a proxy that serves a scheduler below the base path, and another program elsewhere.
func startProxy(t *testing.T, ts *testScheduler, strips bool) string {
	t.Helper()
	target, err := url.Parse(ts.url)
	if err != nil {
		t.Fatal(err)
	}
	var proxy http.Handler = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	if strips {
		proxy = http.StripPrefix(basePath, proxy)
	}
	mux := http.NewServeMux()
	mux.Handle(basePath+"/", proxy)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("lingua_login"); err == nil {
			t.Errorf("the cookie of a login was sent to another program, at %s", r.URL.Path)
		}
		w.WriteHeader(http.StatusTeapot)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestBehindAProxyWithAPrefix uses the dashboard as a browser does, behind a proxy that removes its prefix and one that does not.
func TestBehindAProxyWithAPrefix(t *testing.T) {
	t.Parallel()
	for name, strips := range map[string]bool{"removes its prefix": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes []func(*config.Config)
			if !strips {
				changes = append(changes, atBasePath)
			}
			ts := startMatrix(t, changes...)
			address := startProxy(t, ts, strips)
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			browser := &http.Client{Jar: jar, Transport: new(http.Transport)}
			t.Cleanup(browser.CloseIdleConnections)
			page, body := fetch(t, browser, "GET", address+basePath+"/dashboard", "")
			if page.Request.URL.Path != basePath+"/dashboard/" || page.StatusCode != http.StatusOK {
				t.Fatalf("%d at %s", page.StatusCode, page.Request.URL)
			}
			files := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(body, -1)
			if len(files) < 2 {
				t.Errorf("the page has no files: %s", body)
			}
			for _, f := range files {
				file, err := page.Request.URL.Parse(f[1])
				if err != nil {
					t.Fatal(err)
				}
				if a, _ := fetch(t, browser, "GET", file.String(), ""); a.StatusCode != http.StatusOK {
					t.Errorf("%s: %d", file, a.StatusCode)
				}
			}
			api := func(path string) string { // as the page has it: relative to the directory above
				u, err := page.Request.URL.Parse("../" + path)
				if err != nil {
					t.Fatal(err)
				}
				return u.String()
			}
			for _, step := range []struct {
				method, path, body string
				status             int
			}{
				{"GET", "v1/nodes", "", http.StatusUnauthorized},
				{"POST", "login", `{"key":"` + keySecret("operator") + `"}`, http.StatusOK},
				{"GET", "v1/caller", "", http.StatusOK},
				{"GET", "v1/nodes?limit=5", "", http.StatusOK},
				{"GET", "v1/jobs/no-such-job", "", http.StatusNotFound},
				{"GET", "v1/live?seconds=0", "", http.StatusOK},
				{"POST", "v1/nodes/no-such-node/drain", "", http.StatusNotFound},
				{"POST", "logout", "", http.StatusOK},
				{"GET", "v1/caller", "", http.StatusUnauthorized},
			} {
				if a, text := fetch(t, browser, step.method, api(step.path), step.body); a.StatusCode != step.status {
					t.Errorf("%s %s: %d %s, want %d", step.method, step.path, a.StatusCode, text, step.status)
				}
				if a, _ := fetch(t, browser, "GET", address+"/other/program", ""); a.StatusCode != http.StatusTeapot {
					t.Errorf("the other program: %d", a.StatusCode)
				}
			}
			socket, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(address, "http")+basePath+"/ws/node", &websocket.DialOptions{
				Subprotocols: []string{wire.Subprotocol}, HTTPHeader: http.Header{"Authorization": {"Bearer " + keySecret("node-shared")}},
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = socket.CloseNow()
		})
	}
}

// fetch sends a request and returns the answer, with its body.
func fetch(t *testing.T, c *http.Client, method, address, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestBasePath: every route answers at its own path and below the base path. A base path that is written in another way, repeated, or
// left again leads nowhere, and never to another host.
func TestBasePath(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, atBasePath)
	raw := &http.Client{Transport: new(http.Transport), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(raw.CloseIdleConnections)
	for path, status := range map[string]int{
		"/healthz": 200, basePath + "/healthz": 200, basePath + "/v1/nodes?limit=1": 200, basePath + "/dashboard": 302, basePath + "/dashboard/": 200,
		basePath + "/v1/jobs/a%2Fb": 400, "/v1/jobs/a%2Fb": 400, // the id is refused, not the path
		basePath: 404, basePath + "/": 404, basePath + "x/healthz": 404, basePath + basePath + "/healthz": 404, "/ops/healthz": 404,
		basePath + "//healthz": 404, basePath + "/../healthz": 404, basePath + "/%2e%2e/healthz": 404, basePath + "/./healthz": 404,
		"/%6fps/lingua/healthz": 404, "/ops%2Flingua/healthz": 404, "/OPS/lingua/healthz": 404, "//evil.example" + basePath + "/dashboard": 404,
		basePath + "//evil.example/dashboard": 404, "/x/.." + basePath + "/healthz": 404, basePath + `/\evil.example/dashboard`: 404,
	} {
		a, body := fetchRaw(t, raw, ts.url, path)
		if a.StatusCode != status {
			t.Errorf("%s: %d %s, want %d", path, a.StatusCode, body, status)
		}
		if to := a.Header.Get("Location"); status == 302 && to != "dashboard/" || status != 302 && to != "" {
			t.Errorf("%s leads to %q", path, to)
		}
	}
	a, _ := fetchRaw(t, raw, startScheduler(t).url, basePath+"/healthz")
	if a.StatusCode != http.StatusNotFound {
		t.Errorf("without a base path: %d", a.StatusCode)
	}
}

// fetchRaw requests a path as it is written.
func fetchRaw(t *testing.T, c *http.Client, address, path string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.URL.Opaque = "//" + req.URL.Host + path
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

// TestBasePathKeepsTheChecks: below the base path a request passes the same checks, and audit entries and errors name the route.
func TestBasePathKeepsTheChecks(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t, atBasePath)
	plain := &http.Client{Transport: new(http.Transport)}
	t.Cleanup(plain.CloseIdleConnections)
	ts.client = plain // the description has no paths below the base path
	ts.requestAs(keySecret("viewer"), "POST", basePath+"/v1/nodes/n1/drain", nil).expectError(wire.Forbidden)
	ts.requestAs(keySecret("operator"), "PUT", basePath+"/v1/nodes", nil).expectError(wire.MethodNotAllowed)
	ts.requestWith(ts.login(keySecret("operator")), "POST", basePath+"/logout", nil, "Origin", "http://evil.example").expectError(wire.Forbidden)
	ts.eventually("the denial is in the audit log", func() bool {
		var list wire.AuditList
		ts.requestAs(keySecret("operator"), "GET", basePath+"/v1/audit?outcome=denied", nil).decode(&list)
		return slices.ContainsFunc(list.Entries, func(e wire.AuditEntry) bool { return e.Action == "node.drain" && e.Object == "node/n1" })
	})
}

// TestOwnSegments: a base path cannot begin with the first segment of a path that the server has.
func TestOwnSegments(t *testing.T) {
	t.Parallel()
	var first []string
	for _, r := range startScheduler(t).scheduler.Server.Routes() {
		_, path, _ := strings.Cut(r, " /")
		segment, _, _ := strings.Cut(path, "/")
		first = append(first, segment)
	}
	slices.Sort(first)
	if first = slices.Compact(first); !slices.Equal(first, config.OwnSegments()) {
		t.Errorf("the routes begin with %v, and a base path must not begin with %v", first, config.OwnSegments())
	}
}
