package deploy_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// clientRoutes are the paths that clients and nodes use, and operatorRoutes those that only operators use. Each path of the API is in one of
// them; {id} stands for a name.
var (
	clientRoutes = []string{
		"/ws/node", "/ws/session", "/v1/sessions", "/v1/sessions/{id}", "/v1/dispatch/f2f", "/v1/dispatch/explain", "/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/decisions", "/v1/jobs/{id}/cancel", "/v1/waiting", "/v1/tenants",
		"/v1/job/ack", "/v1/job/done", "/v1/job/fail", "/v1/node/register", "/v1/node/heartbeat", "/v1/node/model_not_available",
		"/v1/audio/{id}", "/v1/audio/{id}/tts", "/v1/version", "/healthz", "/readyz", "/openapi.yaml", "/asyncapi.yaml",
	}
	operatorRoutes = []string{
		"/metrics", "/v1/nodes", "/v1/nodes/table", "/v1/nodes/refused", "/v1/nodes/{id}", "/v1/nodes/{id}/drain", "/v1/nodes/{id}/drain_effect", "/v1/nodes/{id}/resume", "/v1/directions", "/v1/instances", "/api/v1/stats",
		"/api/v1/metrics", "/api/v1/series", "/api/v1/phase3/pools", "/v1/nodes/{id}/series", "/v1/dlq", "/v1/dlq/replay", "/v1/dlq/purge", "/v1/events", "/v1/events/stream",
		"/v1/audit", "/v1/config/reload", "/v1/config", "/v1/nodes/{id}/probe", "/v1/store", "/v1/auth/revocations", "/v1/auth/revocations/{id}", "/login", "/logout",
		"/v1/caller", "/v1/live", "/v1/jobs/cancel", "/v1/nodes/drain", "/v1/nodes/resume",
	}
)

// disguises are ways to write a path that decoders may understand differently.
var disguises = []func(path string) string{
	func(p string) string { return p },
	func(p string) string { return "/%76" + p[2:] },                                       // one character encoded
	func(p string) string { return "/" + strings.ReplaceAll(p[1:], "/", "%2F") },          // slashes encoded
	func(p string) string { return "/" + p },                                              // two slashes
	func(p string) string { return "/v1/dispatch/.." + strings.TrimPrefix(p, "/v1") },     // out of a directory
	func(p string) string { return "/v1/dispatch/%2e%2e" + strings.TrimPrefix(p, "/v1") }, // the same, encoded
	func(p string) string { return "/v1/jobs/..%2f" + strings.TrimPrefix(p, "/v1/") },     // the same, with an encoded slash
	func(p string) string { return "/./" + p[1:] },                                        // a dot
	func(p string) string { return "http://scheduler" + p },                               // an absolute URL
	func(p string) string { return p + "?x=/v1/jobs" },                                    // a query
	func(p string) string { return p + "%3f" },                                            // an encoded question mark
	func(p string) string { return p + "%00" },                                            // a null character
	func(p string) string { return strings.ToUpper(p) },                                   // another case
}

// checkPublicRoutes checks that the balancer forwards what clients use and nothing of what operators use, however it is written, and that
// operators have everything.
func (s *composeStack) checkPublicRoutes() {
	s.t.Helper()
	if s.balancerURL == "" {
		return
	}
	all := s.routes()
	for _, path := range all {
		if slices.Contains(clientRoutes, path) == slices.Contains(operatorRoutes, path) {
			s.t.Errorf("%s is in neither or in both of clientRoutes and operatorRoutes: decide who uses it", path)
		}
	}
	for _, path := range clientRoutes {
		if !s.forwards(s.balancerURL, strings.ReplaceAll(path, "{id}", "a")) {
			s.t.Errorf("clients do not reach %s", path)
		}
	}
	for _, path := range operatorRoutes {
		path = strings.ReplaceAll(path, "{id}", "a")
		if !s.forwards(s.operatorURL, path) {
			s.t.Errorf("operators do not reach %s", path)
		}
		for _, disguise := range disguises {
			if written := disguise(path); s.forwards(s.balancerURL, written) {
				s.t.Errorf("clients reach %s", written)
			}
		}
	}
}

// routes returns the paths of the API as an instance describes them.
func (s *composeStack) routes() []string {
	s.t.Helper()
	resp, err := http.Get(s.operatorURL + "/openapi.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var paths []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if m := regexp.MustCompile(`^  (/\S+):$`).FindStringSubmatch(lines.Text()); m != nil {
			paths = append(paths, m[1])
		}
	}
	if len(paths) < 25 {
		s.t.Errorf("only %d paths were found", len(paths))
	}
	return paths
}

// forwards reports whether the balancer sends a request on: schedulers answer in JSON, YAML or text, and the balancer in HTML. The path is sent
// as it is written, without a client that would clean it.
func (s *composeStack) forwards(base, path string) bool {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(c.SetDeadline(time.Now().Add(20*time.Second)), write(c, "GET "+path+" HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n")); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatalf("%s: %v", path, err)
	}
	defer resp.Body.Close()
	return !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
}

func write(c net.Conn, text string) error {
	_, err := fmt.Fprint(c, text)
	return err
}
