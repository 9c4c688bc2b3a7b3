package lab

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRun checks a run in each mode: every request has a result, the scheduler counts the same, and nothing is left there.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{HTTP, Sockets} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := startScheduler(t)
			cfg := testConfig(mode, s.url)
			cfg.URLs, cfg.Even = []string{s.url, s.url}, true
			cfg.Pairs = append(cfg.Pairs, Pair{"qac", "qad"})
			r := mustRun(t, t.Context(), cfg)
			if q := r.Requests; q.Planned != 24 || q.Done != 24 || q.Sent != 24 || q.Warmup != 6 || q.WarmupFailed != 0 {
				t.Errorf("60 a second for 0.4 s after 0.1 s of warm-up: %+v %+v", q, r.Failures)
			}
			if !r.Valid || r.Interrupted || r.Nodes.OverAssigned > 0 || r.Nodes.StillBusy > 0 || r.Nodes.Lost > 0 || r.Nodes.Unknown > 0 {
				t.Errorf("%+v %+v", r, r.Nodes)
			}
			if l := r.Latency; l.Dispatch == nil || l.Overhead == nil || l.Lag.Count != 24 || (l.Wait != nil) != (mode == Sockets) || l.Overhead.MeanMS >= l.Whole.MeanMS {
				t.Errorf("%+v", l)
			}
			if got := s.counter(t, `lingua_jobs_total{state="DONE"}`); got != 30 {
				t.Errorf("the scheduler counts %d results, want 30", got)
			}
			s.awaitNoSessions(t)
			if mode == Sockets && s.counter(t, `lingua_session_events_total{event="ended"}`) != r.Settings.Sessions {
				t.Errorf("not all of %d sessions were ended", r.Settings.Sessions)
			}
			if r.Schedulers[1].Version != "test" || len(r.Schedulers) != 2 {
				t.Errorf("%+v", r.Schedulers)
			}
		})
	}
}

// TestRunUsesTheFleet checks that a run without stand-in nodes uses the nodes of the scheduler, and is refused if none is capable.
func TestRunUsesTheFleet(t *testing.T) {
	t.Parallel()
	s := startScheduler(t)
	ctx, cancel := context.WithCancel(t.Context())
	var fleet sync.WaitGroup
	n := &SocketNode{ID: "real", Langs: []string{"en", "zh"}, Slots: 50, Worker: &Worker{JobDuration: LogNormal(time.Millisecond, 0)}}
	fleet.Go(func() { _ = n.Run(ctx, s.url, slog.New(slog.DiscardHandler)) })
	defer fleet.Wait()
	defer cancel()
	api := NewAPI(s.url)
	defer api.Close()
	if err := WaitNodes(t.Context(), api, 1); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []Mode{HTTP, Sockets} {
		cfg := testConfig(mode, s.url)
		cfg.Nodes, cfg.Pairs = 0, []Pair{{"en", "zh"}}
		r := mustRun(t, t.Context(), cfg)
		if r.Requests.Failed > 0 || r.Nodes != nil || r.Latency.Overhead != nil || r.Latency.Dispatch == nil {
			t.Errorf("%s: %+v %+v", mode, r, r.Failures)
		}
		cfg.Pairs = []Pair{{"en", "fr"}}
		if _, err := RunLoad(t.Context(), cfg); !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), "en→fr") {
			t.Errorf("%s: a direction that no node serves: %v", mode, err)
		}
	}
}

// TestStandInsAreKeptFromUsers checks that stand-in nodes serve languages of real users only if that is allowed.
func TestStandInsAreKeptFromUsers(t *testing.T) {
	t.Parallel()
	s := startScheduler(t, func(c *config.Config) { c.Auth.OperatorKeys = []string{testKey} })
	elsewhere := strings.Replace(s.url, "127.0.0.1", "0.0.0.0", 1) // reaches this machine, but is not a loopback address
	registerNode(t, s, "real", "en", "zh")
	registerNode(t, s, "other-run", PrivatePair.Src, PrivatePair.Tgt)
	for name, c := range map[string]struct {
		url     string
		pair    Pair
		allowed bool
		want    error
	}{
		"languages of the fleet":                  {s.url, Pair{"en", "zh"}, false, ErrUnsafe},
		"languages of the fleet, allowed":         {s.url, Pair{"en", "zh"}, true, nil},
		"languages of another run":                {s.url, PrivatePair, false, ErrUnsuitable},
		"real languages here, without a fleet":    {s.url, Pair{"en", "fr"}, false, nil},
		"real languages elsewhere":                {elsewhere, Pair{"en", "fr"}, false, ErrUnsafe},
		"one real language elsewhere":             {elsewhere, Pair{"qaa", "fr"}, false, ErrUnsafe},
		"private languages elsewhere":             {elsewhere, Pair{"qac", "qad"}, false, nil},
		"real languages elsewhere, allowed":       {elsewhere, Pair{"en", "fr"}, true, nil},
		"languages of another run, at your peril": {s.url, PrivatePair, true, nil},
	} {
		cfg := testConfig(HTTP, c.url)
		cfg.Pairs, cfg.RealLanguages, cfg.Token = []Pair{c.pair}, c.allowed, testKey
		r := newRun(cfg)
		if err := r.check(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		r.close()
	}
}

// registerNode registers a node that gets no jobs in this test.
func registerNode(t *testing.T, s *testScheduler, id string, langs ...string) {
	t.Helper()
	api := NewAPI(s.url)
	api.Token = testKey
	defer api.Close()
	slots, callback := 1, "http://127.0.0.1:9/jobs"
	var out wire.RegisterResponse
	err := api.Post(t.Context(), "/v1/node/register", wire.RegisterRequest{
		NodeID: id, Declaration: wire.Declaration{SemanticLangs: langs, MaxConcurrentJobs: &slots, CallbackURL: &callback},
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
}

// TestRunInterrupted checks that the end of the context ends the load, and that open requests are awaited.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{HTTP, Sockets} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := startScheduler(t)
			ctx, interrupt := context.WithCancel(t.Context())
			cfg := testConfig(mode, s.url)
			cfg.Warmup, cfg.Duration, cfg.Work = 0, time.Hour, 50*time.Millisecond
			cfg.OnProgress = func(p Progress) {
				if p.Done > 0 {
					interrupt()
				}
			}
			r := mustRun(t, ctx, cfg)
			if !r.Interrupted || r.Requests.Done == 0 || r.Requests.Failed > 0 || r.Requests.Seconds > 3000 {
				t.Errorf("%+v %+v", r.Requests, r.Failures)
			}
			s.awaitNoSessions(t)
			if !strings.Contains(r.text(false), "the run was interrupted after") {
				t.Errorf("the summary does not say so:\n%s", r.text(false))
			}
		})
	}
}

// TestRunInterruptedBeforeTheLoad checks that an interrupted start leaves nothing behind.
func TestRunInterruptedBeforeTheLoad(t *testing.T) {
	t.Parallel()
	s := startScheduler(t)
	for _, phase := range []Phase{PhaseNodes, PhaseSessions} {
		ctx, interrupt := context.WithCancel(t.Context())
		cfg := testConfig(Sockets, s.url)
		cfg.OnProgress = func(p Progress) {
			if p.Phase == phase {
				interrupt()
			}
		}
		if r, err := RunLoad(ctx, cfg); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %+v %v", phase, r, err)
		}
	}
	s.awaitNoSessions(t)
}

// TestRefusalsAreCounted checks that requests beyond the capacity of the nodes are counted by code and reason.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{HTTP, Sockets} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := startScheduler(t, func(c *config.Config) { c.Scheduler.Sessions.WaitMS = 100 })
			cfg := testConfig(mode, s.url)
			cfg.Nodes, cfg.Slots, cfg.Work, cfg.WorkSpread, cfg.Warmup, cfg.Even = 1, 1, time.Second, 0, 0, true
			r := mustRun(t, t.Context(), cfg)
			if r.Requests.Done == 0 || r.Requests.Failed == 0 || r.Failures[0].Code != string(wire.AllCandidatesFullOrFailed) || r.Failures[0].Detail == "" {
				t.Errorf("%+v %+v", r.Requests, r.Failures)
			}
			if want := map[Mode]string{HTTP: "FULL"}[mode]; r.Failures[0].Reason != want { // in sockets it is the code
				t.Errorf("want the reason %q: %+v", want, r.Failures)
			}
			if text := r.text(false); !strings.Contains(text, "× ALL_CANDIDATES_FULL_OR_FAILED") || !strings.Contains(text, "the stand-in nodes can do 1 jobs a second") {
				t.Errorf("the summary does not say so:\n%s", text)
			}
		})
	}
}

// TestTimeoutsAreFailures checks that a request without an outcome fails after the timeout, and that its job is ended.
func TestTimeoutsAreFailures(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{HTTP, Sockets} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := startScheduler(t)
			cfg := testConfig(mode, s.url)
			cfg.Work, cfg.WorkSpread, cfg.Timeout, cfg.Warmup = 20*time.Second, 0, 2*time.Second, 0
			r := mustRun(t, t.Context(), cfg)
			if r.Requests.Done > 0 || len(r.Failures) != 1 || r.Failures[0].Code != codeTimeout {
				t.Errorf("%+v %+v", r.Requests, r.Failures)
			}
			if cancelled := s.counter(t, `lingua_jobs_total{state="CANCELLED"}`); mode == HTTP && cancelled == 0 {
				t.Errorf("no job was cancelled: %+v", r.Requests)
			}
		})
	}
}

// TestSchedulerIsLost checks that a run ends, with failures, if the scheduler stops during it.
func TestSchedulerIsLost(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{HTTP, Sockets} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			s := startScheduler(t)
			ctx, interrupt := context.WithCancel(t.Context())
			cfg := testConfig(mode, s.url)
			cfg.Duration, cfg.Timeout, cfg.Warmup = time.Hour, 2*time.Second, 0
			var sentBefore int // when the scheduler had stopped
			lost := make(chan struct{})
			stop := sync.OnceFunc(func() {
				go func() {
					defer close(lost)
					s.stop()
				}()
			})
			cfg.OnProgress = func(p Progress) {
				if p.Done > 0 {
					stop()
				}
				select {
				case <-lost:
				default:
					return
				}
				if sentBefore == 0 {
					sentBefore = p.Sent
				}
				if p.Sent > sentBefore {
					interrupt()
				}
			}
			r := mustRun(t, ctx, cfg)
			if r.Requests.Done == 0 || r.Requests.Failed == 0 || r.Nodes.Unknown != cfg.Nodes {
				t.Errorf("%+v %+v %+v", r.Requests, r.Failures, r.Nodes)
			}
		})
	}
}

// TestRunWithKeys checks that the operator's key is used for the API and the nodes, that sessions get minted tokens, and that
// a wrong key is an error before the load.
func TestRunWithKeys(t *testing.T) {
	t.Parallel()
	const nodes = "node-token-0123456789"
	for name, secret := range map[string]string{"minted tokens": "a secret of at least thirty-two characters", "operator key": ""} {
		s := startScheduler(t, func(c *config.Config) {
			c.Auth.OperatorKeys, c.Auth.NodeTokens, c.Auth.SessionSecret = []string{testKey}, []string{"gpu-*=" + nodes}, secret
		})
		cfg := testConfig(Sockets, s.url)
		cfg.Token = testKey
		if r := mustRun(t, t.Context(), cfg); r.Requests.Failed > 0 || r.Requests.Done == 0 {
			t.Errorf("%s: %+v %+v", name, r.Requests, r.Failures)
		}
		cfg.NodeToken, cfg.Name = nodes, "gpu-bench"
		if r := mustRun(t, t.Context(), cfg); r.Requests.Failed > 0 || r.Requests.Done == 0 {
			t.Errorf("%s, with a token for nodes: %+v %+v", name, r.Requests, r.Failures)
		}
		cfg.Name = "bench"
		if _, err := RunLoad(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "bench-") {
			t.Errorf("%s: a token for other nodes: %v", name, err)
		}
		cfg.Token = "wrong"
		var refusal *wire.Error
		if _, err := RunLoad(t.Context(), cfg); !errors.As(err, &refusal) || refusal.Code != wire.Unauthorized {
			t.Errorf("%s: a wrong key: %v", name, err)
		}
	}
}

// fakeScheduler is a scheduler of which one handler is replaced.
func fakeScheduler(t *testing.T, dispatch http.HandlerFunc, ended wire.Job) string {
	t.Helper()
	answer := func(w http.ResponseWriter, body any) { _ = json.NewEncoder(w).Encode(body) }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/version", func(w http.ResponseWriter, _ *http.Request) { answer(w, wire.VersionResponse{Version: "fake"}) })
	mux.HandleFunc("POST /v1/dispatch/explain", func(w http.ResponseWriter, _ *http.Request) { answer(w, wire.ExplainResponse{Verdict: "OK"}) })
	mux.HandleFunc("POST /v1/dispatch/f2f", dispatch)
	mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, _ *http.Request) { answer(w, ended) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// TestLoadDoesNotWaitForAnswers checks that the load is an open loop: a scheduler that answers none of the requests until all of
// them have arrived gets them all.
func TestLoadDoesNotWaitForAnswers(t *testing.T) {
	t.Parallel()
	const requests = 20
	var arrived sync.WaitGroup
	arrived.Add(requests)
	url := fakeScheduler(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
		_ = json.NewEncoder(w).Encode(wire.DispatchResponse{JobID: "job-1"})
	}, wire.Job{State: core.StateDone.String(), CreatedMS: 1000, UpdatedMS: 1250})
	cfg := testConfig(HTTP, url)
	cfg.Nodes, cfg.Warmup, cfg.Even = 0, 0, true
	cfg.Rate, cfg.Duration = 100, requests*10*time.Millisecond
	r := mustRun(t, t.Context(), cfg)
	// The first request is answered when the last one has arrived, which is due 190 ms later.
	if r.Requests.Done != requests || r.Latency.Dispatch.MaxMS < 190 {
		t.Errorf("%+v %+v", r.Requests, r.Latency.Dispatch)
	}
}

// TestLatenciesCountFromTheDueTime checks that the time for which a request was sent late is part of its latency, and that it is
// reported and makes the run invalid.
func TestLatenciesCountFromTheDueTime(t *testing.T) {
	t.Parallel()
	url := fakeScheduler(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.DispatchResponse{JobID: "job-1"})
	}, wire.Job{State: core.StateDone.String(), CreatedMS: 1000, UpdatedMS: 1000})
	cfg := testConfig(HTTP, url).withDefaults()
	cfg.MaxLag = 900 * time.Millisecond
	r := newRun(cfg)
	defer r.close()
	d, err := r.newDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q := request{due: time.Now().Add(-time.Second), measured: true}
	r.recorder.plan(q)
	d.submit(q)
	d.wait(time.Now())
	report := r.report(false)
	report.judge(&r.cfg)
	if l := report.Latency; l.Lag.MinMS < 999 || l.Dispatch.MinMS < 999 || l.Whole.MinMS < 999 {
		t.Errorf("a request that was sent a second late: %+v %+v %+v", l.Lag, l.Dispatch, l.Whole)
	}
	if report.Valid || len(report.Invalid) != 1 || !strings.Contains(report.text(false), "THE RUN IS INVALID: the generator was late") {
		t.Errorf("%+v\n%s", report, report.text(false))
	}
}

// TestWholeDoesNotDependOnPolling checks that the end of a job is taken from its record if the job is read much later.
func TestWholeDoesNotDependOnPolling(t *testing.T) {
	t.Parallel()
	url := fakeScheduler(t, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(wire.DispatchResponse{JobID: "job-1"})
	}, wire.Job{State: core.StateDone.String(), CreatedMS: 1000, UpdatedMS: 1001})
	cfg := testConfig(HTTP, url)
	cfg.Nodes, cfg.Poll, cfg.Rate, cfg.Warmup = 0, time.Second, 100, 0
	r := mustRun(t, t.Context(), cfg)
	if r.Latency.Whole.MaxMS > 1.002*r.Latency.Dispatch.MaxMS+1 { // the job took 1 ms; maxima are rounded by 0.1 %
		t.Errorf("whole %+v, dispatch %+v", r.Latency.Whole, r.Latency.Dispatch)
	}
}

func TestUnreachableScheduler(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	address := strings.Replace(s.URL, "://", "://user:secret@", 1)
	_, err := RunLoad(t.Context(), testConfig(HTTP, address))
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "://user:") {
		t.Errorf("%v", err)
	}
}
