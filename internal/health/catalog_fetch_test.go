package health_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

// catalogOf makes a catalog of a real server, whose refreshes are made by the test.
func catalogOf(t *testing.T, address string, transport http.RoundTripper) *health.Catalog {
	t.Helper()
	c, err := health.NewCatalog(health.CatalogOptions{
		URL: address, Token: "hub-token", Refresh: time.Second, Timeout: 10 * time.Second, Transport: transport, Metrics: telemetry.New(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		c.Run(ctx) // closes idle connections
	})
	return c
}

// TestRedirectsStayOnTheHost: a redirect within the host is followed, with the token; one to another host is not, and that host gets
// nothing.
func TestRedirectsStayOnTheHost(t *testing.T) {
	t.Parallel()
	reached := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Header.Get("Authorization") }))
	defer other.Close()
	hub := lab.NewModelHub("hub-token", asr)
	mux := http.NewServeMux()
	mux.Handle("/v1/", hub)
	mux.Handle("/moved", http.RedirectHandler(lab.ServicesPath, http.StatusMovedPermanently))
	mux.Handle("/away", http.RedirectHandler(other.URL+"/?secret=1", http.StatusTemporaryRedirect))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusFound))
	mux.Handle("/odd", http.RedirectHandler("http://[secret/", http.StatusFound))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for path, want := range map[string]string{"/moved": "", "/away": "redirects", "/round": "redirects", "/odd": "the request failed"} {
		c := catalogOf(t, srv.URL+path, nil)
		c.RefreshList(t.Context())
		if state := c.State(); (state.Services == 1) != (want == "") || !strings.Contains(state.LastError, want) || strings.Contains(state.LastError, "secret") {
			t.Errorf("%s: %+v", path, state)
		}
	}
	select {
	case token := <-reached:
		t.Errorf("the other host got a request with %q", token)
	default:
	}
}

// TestErrorsOfTheNetwork: they are in the state, without the query of the URL.
func TestErrorsOfTheNetwork(t *testing.T) {
	t.Parallel()
	const closed = "http://127.0.0.1:1" // where nothing listens
	secure := httptest.NewUnstartedServer(lab.NewModelHub("", asr))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	secure.StartTLS()
	defer secure.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	for address, want := range map[string]string{closed: "connection refused", secure.URL: "certificate", cut.URL: "closed"} {
		c := catalogOf(t, address+"/services?key=hunter2", nil)
		c.RefreshList(t.Context())
		if state := c.State(); state.FailCount != 1 || !strings.Contains(state.LastError, want) || strings.Contains(state.LastError, "hunter2") {
			t.Errorf("%s: %+v, want %q", address, state, want)
		}
	}
	c := catalogOf(t, secure.URL+lab.ServicesPath, secure.Client().Transport)
	c.RefreshList(t.Context())
	if state := c.State(); state.Services != 1 {
		t.Errorf("a server with a trusted certificate: %+v", state)
	}
}

// TestMalformedAnswers: an answer that is not as documented changes nothing.
func TestMalformedAnswers(t *testing.T) {
	t.Parallel()
	var status int
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer srv.Close()
	c := catalogOf(t, srv.URL, nil)
	refresh := func(answer int, text string, single bool) health.CatalogState {
		status, body = answer, text
		if single {
			c.RefreshService(t.Context(), "a")
		} else {
			c.RefreshList(t.Context())
		}
		return c.State()
	}
	good := `{"services": [{"service_id": "a", "unknown_field": 1}]}`
	for _, bad := range []struct {
		status int
		body   string
	}{
		{200, ""}, {200, "null"}, {200, "{}"}, {200, "[]"}, {200, `{"services": null}`}, {200, `{"services": {}}`}, {200, good + "x"}, {200, good[:20]},
		{200, `{"services": [{"service_id": ""}]}`}, {200, `{"services": [{"service_id": 1}]}`}, {200, `{"services": [{"service_id": "b"}, {"service_id": "b"}]}`},
		{200, `{"services": [{"service_id": "b\u001b[2J"}]}`}, {200, `{"services": [{"service_id": "b", "versions": [""]}]}`},
		{204, ""}, {206, good}, {304, ""}, {401, good}, {404, good}, {500, good},
	} {
		if state := refresh(200, good, false); state.Services != 1 || state.FailCount != 0 {
			t.Fatalf("before: %+v", state)
		}
		if state := refresh(bad.status, bad.body, false); state.Services != 1 || state.FailCount != 1 || state.LastError == "" || strings.Contains(state.LastError, "2J") {
			t.Errorf("%d %s: %+v", bad.status, bad.body, state)
		}
	}
	for _, bad := range []string{"", "null", "[]", `{"service_id": "b"}`, `{"service_id": "a", "versions": [1]}`, `{"service_id": "a", "name": "\u0000"}`} {
		refresh(200, good, false)
		refresh(200, bad, true)
		if diff := cmp.Diff([]health.HubService{{ServiceID: "a"}}, c.Services()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", bad, diff)
		}
	}
}
