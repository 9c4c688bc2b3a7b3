package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	failuresToBackOff = 3                // in a row, after which the interval grows and the breaker opens
	maxRefreshFactor  = 20               // to how many times the interval grows
	maxRefresh        = 10 * time.Minute // and to how long, unless it is longer from the start
	refreshJitter     = 0.1              // so that instances do not ask at the same time
	maxWanted         = 8                // services that are refreshed one by one; if more are wanted, the whole list is
)

// CatalogOptions configure a Catalog.
type CatalogOptions struct {
	URL     string        // of the list; empty: there is no ModelHub
	Token   string        // sent with every request; empty: none
	Refresh time.Duration // the interval of refreshes
	Timeout time.Duration // of one request
	// Transport sends the requests; nil: the transport of net/http.
	Transport http.RoundTripper
	Metrics   *telemetry.Metrics
	Log       *slog.Logger
}

// Catalog is this instance's copy of the list of services of a ModelHub. Run refreshes it in the background; readers never wait. The
// last good list is served until there is a better one, however long the ModelHub fails.
type Catalog struct {
	opts    CatalogOptions
	url     *url.URL
	client  *http.Client
	breaker *gobreaker.CircuitBreaker[struct{}]
	current atomic.Pointer[catalogCopy]

	etag, modified string // of the list that current has; used by Run only

	mu      run.Mutex
	wanted  map[string]bool // services whose refresh was requested
	wantAll bool            // so many services were requested that the whole list is refreshed
	wake    chan struct{}
}

// catalogCopy is the copy at one moment. It does not change.
type catalogCopy struct {
	services []HubService // ordered by id
	state    CatalogState
}

// CatalogState says how fresh a catalog is.
type CatalogState struct {
	Configured    bool      // there is a ModelHub
	Services      int       // in the copy
	FetchedAt     time.Time // when the list that is served was fetched; zero: never
	LastSuccessAt time.Time // when the ModelHub last answered with a list, or that it has not changed; zero: never
	FailCount     int       // refreshes of the list that failed since
	LastError     string    // of the last one; without the URL's query and without secrets
}

// NewCatalog makes a catalog. It is empty until Run has fetched the list.
func NewCatalog(o CatalogOptions) (*Catalog, error) {
	c := &Catalog{opts: o, mu: run.NewMutex("guard_catalog"), wanted: make(map[string]bool), wake: make(chan struct{}, 1)}
	c.current.Store(&catalogCopy{state: CatalogState{Configured: o.URL != ""}})
	if o.URL == "" {
		return c, nil
	}
	for _, result := range []string{"ok", "not_modified", "error", "skipped"} { // rates begin at zero
		o.Metrics.CatalogRefreshes.WithLabelValues("list", result)
	}
	var err error
	if c.url, err = url.Parse(o.URL); err != nil {
		return nil, errors.New("scheduler.model_hub.url: is not a URL")
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // nobody replaces it
	}
	c.client = &http.Client{Transport: o.Transport, CheckRedirect: checkRedirect}
	c.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      o.Refresh, // shorter than the interval after as many failures, so that the list is tried again at its time
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failuresToBackOff },
		IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, errNotListed) },
		IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
	})
	return c, nil
}

// Services returns the services of the catalog, ordered by id. Callers must not change them.
func (c *Catalog) Services() []HubService { return c.current.Load().services }

// Lookup returns a service of the catalog; false if it is not listed.
func (c *Catalog) Lookup(id string) (HubService, bool) {
	services := c.Services()
	i, found := FindService(services, id)
	if !found {
		return HubService{}, false
	}
	return services[i], true
}

// Describe returns a service as the API shows it, listed or not.
func (c *Catalog) Describe(id string) wire.CatalogService {
	if s, listed := c.Lookup(id); listed {
		return DescribeService(&s)
	}
	return wire.CatalogService{ServiceID: id}
}

// DescribeService describes a service that the catalog lists.
func DescribeService(s *HubService) wire.CatalogService {
	return wire.CatalogService{ServiceID: s.ServiceID, Listed: true, Name: s.Name, Type: s.Type, Versions: s.Versions}
}

// State returns how fresh the catalog is.
func (c *Catalog) State() CatalogState { return c.current.Load().state }

// FindService returns the place of a service in a list that is sorted by ids, and whether it is there.
func FindService(services []HubService, id string) (int, bool) {
	return slices.BinarySearchFunc(services, id, func(s HubService, id string) int { return cmp.Compare(s.ServiceID, id) })
}

// Refresh requests that what is known about a service is refreshed soon. Requests for the same service that come before that are one. It
// never waits.
func (c *Catalog) Refresh(service string) {
	if c.url == nil {
		return
	}
	c.mu.Lock()
	if len(c.wanted) < maxWanted {
		c.wanted[service] = true
	} else if !c.wanted[service] {
		c.wantAll = true
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// takeWanted returns the services whose refresh was requested, or that the whole list is to be refreshed.
func (c *Catalog) takeWanted() (services []string, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for service := range c.wanted {
		services = append(services, service)
	}
	slices.Sort(services)
	all, c.wantAll = c.wantAll, false
	clear(c.wanted)
	return services, all
}

// Run refreshes the catalog until the context ends.
func (c *Catalog) Run(ctx context.Context) {
	if c.url == nil {
		return
	}
	defer c.client.CloseIdleConnections()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			c.refreshList(ctx)
			timer.Reset(c.interval())
		case <-c.wake:
			services, all := c.takeWanted()
			if all || c.State().FetchedAt.IsZero() {
				c.refreshList(ctx)
				timer.Reset(c.interval())
				continue
			}
			for _, service := range services {
				c.refreshService(ctx, service)
			}
		}
	}
}

// interval returns the time until the next refresh of the list.
func (c *Catalog) interval() time.Duration {
	d, failures := c.opts.Refresh, c.State().FailCount
	limit := max(d, min(maxRefreshFactor*d, maxRefresh))
	for i := failuresToBackOff; i <= failures && d < limit; i++ {
		d *= 2
	}
	return run.Jitter(min(d, limit), refreshJitter)
}

// refreshList fetches the list, unless it has not changed, and makes it the copy that is served.
func (c *Catalog) refreshList(ctx context.Context) {
	var answer listAnswer
	_, err := c.breaker.Execute(func() (_ struct{}, err error) {
		answer, err = c.fetchList(ctx)
		return struct{}{}, err
	})
	last := c.current.Load()
	next := &catalogCopy{services: last.services, state: last.state}
	result := "ok"
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), ctx.Err() != nil:
		c.count("list", "skipped")
		return
	case err != nil:
		result = "error"
		next.state.FailCount++
		next.state.LastError = c.describe(err)
	case answer.notModified:
		result = "not_modified"
	default:
		next.services, next.state.Services = answer.services, len(answer.services)
		next.state.FetchedAt = time.Now()
		c.etag, c.modified = answer.etag, answer.modified
	}
	if err == nil {
		next.state.LastSuccessAt, next.state.FailCount, next.state.LastError = time.Now(), 0, ""
	}
	c.current.Store(next)
	c.opts.Metrics.SetModelHubDown(next.state.FailCount > 0)
	c.count("list", result)
	c.logChange(&last.state, &next.state)
}

// refreshService fetches one service and replaces it in the copy that is served. A service that the ModelHub does not have stays until
// the list is fetched: one answer out of two must not remove it.
func (c *Catalog) refreshService(ctx context.Context, id string) {
	var fetched HubService
	_, err := c.breaker.Execute(func() (_ struct{}, err error) {
		fetched, err = c.fetchService(ctx, id)
		return struct{}{}, err
	})
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), ctx.Err() != nil:
		c.count("service", "skipped")
		return
	case errors.Is(err, errNotListed):
		c.count("service", "not_listed")
		return
	case err != nil:
		c.count("service", "error")
		c.opts.Log.Debug("a service could not be refreshed from the ModelHub", "error", c.describe(err))
		return
	}
	last := c.current.Load()
	services := slices.Clone(last.services)
	if i, found := FindService(services, id); found {
		services[i] = fetched
	} else if len(services) < MaxServices {
		services = slices.Insert(services, i, fetched)
	}
	next := &catalogCopy{services: services, state: last.state}
	next.state.Services = len(services)
	c.current.Store(next)
	c.count("service", "ok")
}

func (c *Catalog) count(kind, result string) {
	c.opts.Metrics.CatalogRefreshes.WithLabelValues(kind, result).Inc()
}

// logChange logs when the ModelHub has failed for a while, and when it answers again.
func (c *Catalog) logChange(last, next *CatalogState) {
	switch {
	case next.FailCount == failuresToBackOff:
		c.opts.Log.Warn("the ModelHub fails: its last list is used, and it is asked less often", "failures", next.FailCount, "error",
			next.LastError,
			"services", next.Services, "fetched_at", formatTime(next.FetchedAt))
	case next.FailCount == 0 && last.FailCount >= failuresToBackOff:
		c.opts.Log.Info("the ModelHub answers again", "failures", last.FailCount, "services", next.Services)
	case next.FailCount > 0:
		c.opts.Log.Debug("the list of the ModelHub could not be refreshed", "failures", next.FailCount, "error", next.LastError)
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.UTC().Format(time.RFC3339)
}

// describe describes an error without the URL, whose query may be a secret, and without what the ModelHub has sent.
func (c *Catalog) describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", c.opts.Timeout)
	}
	return describeRequestError(err)
}
