package health_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
)

var (
	asr = health.HubService{ServiceID: "asr-en", Name: "English recognition", Type: "asr", Versions: []string{"2.0", "1.9"}}
	nmt = health.HubService{ServiceID: "nmt-en-es", Name: "English to Spanish", Type: "nmt", Versions: []string{"3.1"}}
	tts = health.HubService{ServiceID: "tts-es", Type: "tts"}
)

// inMemory sends requests to a handler in memory, so that they take no time of the fake clock.
type inMemory struct {
	handler http.Handler

	mu   sync.Mutex
	sent []request
}

type request struct {
	at  time.Time
	url string
	http.Header
}

// RoundTrip implements http.RoundTripper.
func (m *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.sent = append(m.sent, request{time.Now(), r.URL.String(), r.Header})
	m.mu.Unlock()
	body, w := io.Pipe()
	resp := &pipeResponse{header: make(http.Header), body: w, began: make(chan int, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.handler.ServeHTTP(resp, r)
		resp.WriteHeader(http.StatusOK)
		w.Close()
	}()
	context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
	select {
	case status := <-resp.began:
		return &http.Response{StatusCode: status, Header: resp.header, Body: body, Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
	case <-r.Context().Done():
		<-ended
		return nil, r.Context().Err()
	}
}

func (m *inMemory) requests() []request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]request(nil), m.sent...)
}

// pipeResponse is an http.ResponseWriter whose body is read while it is written.
type pipeResponse struct {
	header http.Header
	body   io.Writer
	once   sync.Once
	began  chan int
}

func (p *pipeResponse) Header() http.Header { return p.header }

func (p *pipeResponse) WriteHeader(status int) { p.once.Do(func() { p.began <- status }) }

func (p *pipeResponse) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.body.Write(b)
}

// catalogHarness is a catalog of a stand-in.
type catalogHarness struct {
	t       *testing.T
	hub     *lab.ModelHub
	net     *inMemory
	metrics *telemetry.Metrics
	log     *bytes.Buffer
	catalog *health.Catalog
}

// runCatalog runs a test with a catalog that is refreshed every 30 seconds, on a fake clock.
func runCatalog(t *testing.T, fn func(h *catalogHarness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &catalogHarness{t: t, hub: lab.NewModelHub("hub-token", nmt, asr), metrics: telemetry.New(), log: new(bytes.Buffer)}
		h.net = &inMemory{handler: h.hub}
		var err error
		h.catalog, err = health.NewCatalog(health.CatalogOptions{
			URL: "http://hub.example" + lab.ServicesPath + "?key=hunter2", Token: "hub-token", Refresh: 30 * time.Second, Timeout: 3 * time.Second,
			Transport: h.net, Metrics: h.metrics, Log: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		defer func() {
			cancel()
			<-done
			if strings.Contains(h.log.String(), "hunter2") || strings.Contains(h.log.String(), "hub-token") {
				t.Errorf("the log has a secret:\n%s", h.log)
			}
		}()
		go func() {
			h.catalog.Run(ctx)
			close(done)
		}()
		synctest.Wait()
		fn(h)
	})
}

func (h *catalogHarness) wantServices(want ...health.HubService) {
	h.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, h.catalog.Services()); diff != "" {
		h.t.Errorf("services (-want +got):\n%s", diff)
	}
	if got := h.catalog.State().Services; got != len(want) {
		h.t.Errorf("the state has %d services, want %d", got, len(want))
	}
}

// pass lets the time of one refresh pass, with its jitter.
func (h *catalogHarness) pass() {
	time.Sleep(33*time.Second + 4*time.Second)
	synctest.Wait()
}
