package server

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/internal/tenants"
	"github.com/lingua-scheduler/lingua/wire"
)

// statusHandlers answer the requests of probes and of Prometheus, and show the store, the capability pools and the tenants.
type statusHandlers struct {
	responder
	version     wire.VersionResponse
	metrics     *telemetry.Metrics
	health      StoreHealth
	partial     func() bool
	stopping    *atomic.Bool
	pings       sharedCheck
	store       *storeInspector
	revocations *revocation.Follower
	pools       *pools.Reader
	tenants     *tenants.Gate
	dispatcher  *dispatch.Dispatcher
	sessions    *session.Registry
	peers       *peerLists
}

func (h *statusHandlers) routes() []route {
	return []route{
		h.storeRoute(), h.poolsRoute(), h.tenantsRoute(),
		{
			method: "GET", path: "/v1/version", rule: everyone, tag: "operations", summary: "Show the version",
			handler: handle(h.responder, h.showVersion),
		},
		{
			method: "GET", path: "/healthz", rule: everyone, tag: "operations", summary: "Liveness probe",
			handler: handle(h.responder, h.live),
		},
		{
			method: "GET", path: "/readyz", rule: everyone, tag: "operations",
			summary: "Readiness probe: whether this instance takes new work",
			handler: handler{serve: h.ready, out: reflect.TypeFor[wire.ReadyResponse]()}, alsoStatus: http.StatusServiceUnavailable,
		},
		{
			method: "GET", path: "/metrics", rule: metricsReaders, programs: true, tag: "operations", summary: "Metrics for Prometheus",
			media: "text/plain",
			description: "In the text format; also in OpenMetrics, with exemplars, and in protobuf, with native histograms, for a " +
				"scraper that accepts these.",
			handler: handler{serve: promhttp.HandlerFor(h.metrics.Registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP},
		},
	}
}

func (h *statusHandlers) live(*http.Request) (*wire.HealthResponse, error) {
	return &wire.HealthResponse{Status: "ok"}, nil
}

func (h *statusHandlers) showVersion(*http.Request) (*wire.VersionResponse, error) {
	return &h.version, nil
}

// ready answers whether this instance takes new work.
func (h *statusHandlers) ready(w http.ResponseWriter, r *http.Request) {
	out := &wire.ReadyResponse{Ready: true}
	switch {
	case h.stopping.Load():
		out.Ready, out.Reason = false, "it is shutting down"
	default:
		if problem := h.storeProblem(r.Context()); problem != "" {
			out.Ready, out.Reason = false, problem
		} else if h.partial != nil && h.partial() {
			out.Ready, out.Reason = false, "it has just started and does not know every node yet"
		} else if !h.revocations.Ready() {
			out.Ready, out.Reason = false, "it has not read the list of revocations yet"
		}
	}
	status := http.StatusOK
	if !out.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, out)
}

// storeProblem says why this instance cannot use the store; empty: it can.
func (h *statusHandlers) storeProblem(ctx context.Context) string {
	err := h.pings.do(ctx, h.health.Check)
	if err == nil {
		return ""
	}
	var unavailable store.UnavailableError
	if errors.As(err, &unavailable) {
		return string(unavailable)
	}
	return "the shared store does not answer"
}

// checkInterval is how often /readyz checks the store, for any number of requests: they need no credential, and each check writes to
// the store.
const checkInterval = 250 * time.Millisecond

// checkTimeout bounds a check. All requests share its result, so it does not end with the request that began it. A request may wait for the
// end of one check and then for another, and a load balancer takes an instance that does not answer within 3 s for hung.
const checkTimeout = time.Second

// sharedCheck shares the result of a check among all requests within checkInterval.
type sharedCheck struct {
	mu      sync.Mutex
	started time.Time // of the last check
	result  error
	running chan struct{} // closed at the end of the check in progress; nil: there is none
}

var errCheckFailed = errors.New("the check did not return")

// do returns the result of the last check, or waits for the check in progress, or checks.
func (c *sharedCheck) do(ctx context.Context, check func(context.Context) error) error {
	for {
		c.mu.Lock()
		if running := c.running; running != nil {
			c.mu.Unlock()
			select {
			case <-running:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !c.started.IsZero() && time.Since(c.started) < checkInterval {
			result := c.result
			c.mu.Unlock()
			return result
		}
		c.started, c.running = time.Now(), make(chan struct{})
		c.mu.Unlock()
		return c.run(ctx, check)
	}
}

// run checks and publishes the result, also when the check panics.
func (c *sharedCheck) run(ctx context.Context, check func(context.Context) error) (err error) {
	err = errCheckFailed
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.result = err
		close(c.running)
		c.running = nil
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	err = check(ctx)
	return err
}
