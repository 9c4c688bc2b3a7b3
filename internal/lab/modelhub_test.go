package lab_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/docpage"
)

// start serves a stand-in until the test ends.
func start(t *testing.T, h *lab.ModelHub) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

// do sends a request and returns the status, the headers and the body of the answer.
func do(t *testing.T, srv *httptest.Server, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	client := *srv.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, health.MaxBody+1))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// TestAnswersAreAsDocumented compares the answers of the stand-in with docs/model-hub.md.
func TestAnswersAreAsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/model-hub.md")
	if err != nil {
		t.Fatal(err)
	}
	page := docpage.Page{Path: "docs/model-hub.md", Text: string(text)}
	documented := make(map[string]string)
	for _, b := range page.Blocks() {
		documented[b.About()] = b.Body
		if b.Language() == "text" {
			documented["headers"] = b.Body
		}
	}
	srv := start(t, lab.NewModelHub("", lab.DemoServices()...))
	_, header, list := do(t, srv, "GET", lab.ServicesPath, "")
	_, _, one := do(t, srv, "GET", lab.ServicesPath+"/nmt-multi", "")
	if diff := cmp.Diff(documented["answer GET model_hub.url"], list); diff != "" {
		t.Errorf("the list (-docs +answer):\n%s", diff)
	}
	if diff := cmp.Diff(documented["answer GET model_hub.url/{service_id}"], one); diff != "" {
		t.Errorf("one service (-docs +answer):\n%s", diff)
	}
	for line := range strings.Lines(documented["headers"]) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if got := header.Get(name); got == "" || name != "Last-Modified" && got != value {
			t.Errorf("%s is %q, in the docs %q", name, got, value)
		}
	}
	for _, f := range lab.Faults() {
		if !strings.Contains(page.Text, "| `"+string(f)+"` |") {
			t.Errorf("the page does not describe the fault %s", f)
		}
	}
	checked := health.HubList{Services: lab.DemoServices()}
	if err := checked.Check(); err != nil {
		t.Error(err)
	}
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	h := lab.NewModelHub("", lab.DemoServices()...)
	srv := start(t, h)
	_, first, _ := do(t, srv, "GET", lab.ServicesPath, "")
	for name, from := range map[string]string{"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"} {
		if status, _, body := do(t, srv, "GET", lab.ServicesPath, "", name, first.Get(from)); status != http.StatusNotModified || body != "" {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	h.SetServices(health.HubService{ServiceID: "other"})
	if status, second, _ := do(t, srv, "GET", lab.ServicesPath, "", "If-None-Match", first.Get("ETag")); status != 200 || second.Get("ETag") == first.Get("ETag") {
		t.Errorf("after a change: %d %s", status, second.Get("ETag"))
	}
}

func TestErrorsOfTheStandIn(t *testing.T) {
	t.Parallel()
	srv := start(t, lab.NewModelHub("hub-token", lab.DemoServices()...))
	token := []string{"Authorization", "Bearer hub-token"}
	for _, c := range []struct {
		method, path string
		headers      []string
		want         int
	}{
		{"GET", lab.ServicesPath, token, 200},
		{"GET", lab.ServicesPath, nil, 401},
		{"GET", lab.ServicesPath, []string{"Authorization", "Bearer other"}, 401},
		{"GET", lab.ServicesPath + "/unknown", token, 404},
		{"GET", "/", token, 404},
		{"POST", lab.ServicesPath, token, 405},
	} {
		if status, _, _ := do(t, srv, c.method, c.path, "", c.headers...); status != c.want {
			t.Errorf("%s %s with %v: %d, want %d", c.method, c.path, c.headers, status, c.want)
		}
	}
}

// TestFaults: each fault is what it says, and is set in process or by a request.
func TestFaults(t *testing.T) {
	t.Parallel()
	h := lab.NewModelHub("", lab.DemoServices()...)
	srv := start(t, h)
	for _, f := range lab.Faults() {
		if status, _, body := do(t, srv, "PUT", lab.FaultPath, string(f)+"\n"); status != 200 || strings.TrimSpace(body) != string(f) {
			t.Errorf("setting %s: %d %s", f, status, body)
		}
		if f == lab.FaultHang {
			continue
		}
		status, _, body := do(t, srv, "GET", lab.ServicesPath, "")
		var list health.HubList
		err := json.Unmarshal([]byte(body), &list)
		got := map[lab.Fault]bool{
			lab.FaultNone: status == 200 && list.Check() == nil, lab.FaultFail: status == 503, lab.FaultRubbish: status == 200 && err != nil,
			lab.FaultEmpty: status == 200 && err == nil && len(list.Services) == 0, lab.FaultOversized: len(body) > health.MaxBody, lab.FaultRedirect: status == 302,
		}[f]
		if !got {
			t.Errorf("%s: %d %.80s", f, status, body)
		}
	}
	if status, _, _ := do(t, srv, "PUT", lab.FaultPath, "explode"); status != 400 {
		t.Errorf("an unknown fault: %d", status)
	}
	if _, _, body := do(t, srv, "GET", lab.FaultPath, ""); strings.TrimSpace(body) != string(lab.FaultRedirect) {
		t.Errorf("an unknown fault was set: %s", body)
	}
}

// TestHangingRequestsEnd: with their caller, or when the fault ends.
func TestHangingRequestsEnd(t *testing.T) {
	t.Parallel()
	h := lab.NewModelHub("")
	h.SetFault(lab.FaultHang)
	for name, end := range map[string]func(cancel func()){
		"the caller leaves": func(cancel func()) { cancel() },
		"the fault ends":    func(func()) { h.SetFault(lab.FaultHang) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		before, _ := h.Requests("")
		go func() {
			defer close(ended)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", lab.ServicesPath, http.NoBody))
		}()
		for now := before; now == before; now, _ = h.Requests("") {
			select {
			case <-ended:
				t.Fatalf("%s: it did not hang", name)
			default:
				runtime.Gosched()
			}
		}
		end(cancel)
		<-ended
		cancel()
	}
}
