package lab

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

var (
	// ErrUnsafe is wrapped by the error of a run that could give results of stand-in nodes to real users.
	ErrUnsafe = errors.New("stand-in nodes could receive the utterances of real users")
	// ErrUnsuitable is wrapped by the error of a run that the scheduler cannot serve as it is described.
	ErrUnsuitable = errors.New("the scheduler cannot serve this load")
)

// UnreachableError is the error of a run whose scheduler did not respond.
type UnreachableError struct {
	URL string // without a password
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no scheduler responds at %s: %s", e.URL, e.Err)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// driver sends requests of one mode.
type driver interface {
	// lead is how long before a request is due it must be submitted.
	lead() time.Duration
	// submit begins a request. It does not block.
	submit(request)
	// wait returns when every request has an outcome; those that have none at a given time fail. Nothing is submitted any more.
	wait(until time.Time)
	// close ends what is still open.
	close()
}

// loadRun is one loadRun.
type loadRun struct {
	cfg        LoadConfig
	name       string // unique among all runs
	clock      clock
	apis       []*API       // one for each address
	sockets    *http.Client // of the sessions and the stand-in nodes; nil: each has one of its own
	schedulers []Scheduler
	recorder   *recorder
	monitor    *monitor
	started    time.Time // when the first request was due
	ended      time.Time // when the last request was due, or the load was interrupted
}

// RunLoad makes a run and reports on it. When the context ends, no further requests are sent, those that are open are awaited, and
// the report says that the run was interrupted. Nothing of the run is left in the scheduler: sessions are ended, and nodes
// leave.
func RunLoad(ctx context.Context, cfg LoadConfig) (*Report, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := newRun(cfg)
	defer r.close()
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	defer r.monitor.run(ctx)()
	nodes := &standIns{stop: func() {}}
	if cfg.Nodes > 0 {
		r.monitor.enter(PhaseNodes)
		var err error
		if nodes, err = startStandIns(ctx, r); err != nil {
			return nil, err
		}
	}
	defer nodes.close()
	d, err := r.newDriver(ctx)
	if err != nil {
		return nil, err
	}
	defer d.close()
	r.sendLoad(ctx, d)
	r.monitor.enter(PhaseWait)
	d.wait(r.ended.Add(cfg.Timeout))
	r.monitor.enter(PhaseEnd)
	d.close()
	nodes.close()
	report := r.report(ctx.Err() != nil)
	if cfg.Nodes > 0 {
		report.Nodes = nodes.checkLeft(ctx)
	}
	report.judge(&r.cfg)
	return report, nil
}

func newRun(cfg LoadConfig) *loadRun {
	r := &loadRun{cfg: cfg, name: cfg.Name + "-" + strings.ToLower(rand.Text()[:6]), recorder: newRecorder(cfg.Timeout)}
	r.clock = clock{run: r.name, start: time.Now()}
	r.monitor = &monitor{cfg: &r.cfg, recorder: r.recorder}
	if cfg.TLS != nil {
		r.sockets = &http.Client{Transport: &http.Transport{TLSClientConfig: cfg.TLS, Proxy: http.ProxyFromEnvironment}}
	}
	for _, address := range cfg.URLs {
		api := NewAPI(address)
		api.SetTLS(cfg.TLS)
		api.Token, api.HTTP.Timeout = cfg.Token, cfg.Timeout
		r.apis = append(r.apis, api)
	}
	return r
}

// close closes the idle connections.
func (r *loadRun) close() {
	if r.sockets != nil {
		r.sockets.CloseIdleConnections()
	}
	for _, api := range r.apis {
		api.Close()
	}
}

// newDriver makes the driver of the mode.
func (r *loadRun) newDriver(ctx context.Context) (driver, error) {
	if r.cfg.Mode == HTTP {
		return &httpDriver{cfg: &r.cfg, run: r.name, apis: r.apis, recorder: r.recorder, ctx: context.WithoutCancel(ctx)}, nil
	}
	r.monitor.enter(PhaseSessions)
	d, err := newSocketDriver(ctx, r)
	if err != nil {
		return nil, err // not d: a nil pointer in an interface is not nil
	}
	return d, nil
}

// sendLoad submits every request in time, until the end of the load or of the context.
func (r *loadRun) sendLoad(ctx context.Context, d driver) {
	r.started = time.Now().Add(d.lead())
	r.monitor.enterLoad(r.started)
	due := arrivals{rate: r.cfg.Rate, even: r.cfg.Even}
	for n := 0; ; n++ {
		at := due.next()
		if at >= r.cfg.Warmup+r.cfg.Duration {
			r.ended = r.started.Add(r.cfg.Warmup + r.cfg.Duration)
			sleepUntil(ctx, r.ended)
			break
		}
		q := request{number: n, due: r.started.Add(at), measured: at >= r.cfg.Warmup}
		if !sleepUntil(ctx, q.due.Add(-d.lead())) {
			break
		}
		r.recorder.plan(q)
		d.submit(q)
	}
	if now := time.Now(); r.ended.IsZero() || r.ended.After(now) {
		r.ended = now.Add(d.lead()) // what was submitted is due until then
	}
}

// check returns an error if the scheduler does not respond, or if the load does not suit it.
func (r *loadRun) check(ctx context.Context) error {
	for _, api := range r.apis {
		var v wire.VersionResponse
		if err := api.Get(ctx, "/v1/version", &v); err != nil {
			return requestFailed(ctx, api, err)
		}
		r.schedulers = append(r.schedulers, Scheduler{URL: redact(api.URL), Version: v.Version, Commit: v.Commit})
	}
	for _, pair := range r.cfg.Pairs {
		check := r.checkFleet
		if r.cfg.Nodes > 0 {
			check = r.checkSafety
		}
		if err := check(ctx, pair); err != nil {
			return err
		}
	}
	return nil
}

// checkFleet returns an error if no node of the scheduler serves a direction.
func (r *loadRun) checkFleet(ctx context.Context, pair Pair) error {
	var out wire.ExplainResponse
	in := wire.DispatchRequest{SessionID: r.name, SrcLang: pair.Src, TgtLang: pair.Tgt}
	if err := r.apis[0].Post(ctx, "/v1/dispatch/explain", in, &out); err != nil {
		return requestFailed(ctx, r.apis[0], err)
	}
	if out.Verdict == string(wire.NoCapableNode) {
		return fmt.Errorf("%w: %s: %s", ErrUnsuitable, pair, out.Detail)
	}
	return nil
}

// checkSafety returns an error if stand-in nodes for a direction could receive utterances of real users, or share the load with
// other nodes.
func (r *loadRun) checkSafety(ctx context.Context, pair Pair) error {
	ready, err := readyNodes(ctx, r.apis[0], pair)
	switch {
	case err != nil:
		return err
	case r.cfg.RealLanguages:
		return nil
	case pair.privateUse() && ready > 0:
		return fmt.Errorf("%w: other nodes already serve %s; perhaps another run uses it: choose other languages between qaa and qtz",
			ErrUnsuitable, pair)
	case pair.privateUse():
		return nil
	case ready > 0:
		return fmt.Errorf("%w: %d nodes of the scheduler already serve %s", ErrUnsafe, ready, pair)
	case !r.cfg.allLoopback():
		return fmt.Errorf("%w: %s is not this machine, and people speak the languages of %s", ErrUnsafe, r.schedulers[0].URL, pair)
	}
	return nil
}

// requestFailed returns the error of a request before the load: that of the scheduler, or that it does not respond.
func requestFailed(ctx context.Context, api *API, err error) error {
	var refusal *wire.Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return &UnreachableError{URL: redact(api.URL), Err: withoutURL(err)}
}

// redact removes the password from a URL.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Redacted()
}
