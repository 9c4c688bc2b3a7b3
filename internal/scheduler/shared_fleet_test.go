package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestTwoInstancesShareAFleet: what a node sends to one instance takes effect on the other.
func TestTwoInstancesShareAFleet(t *testing.T) {
	t.Parallel()
	t.Run("a node is seen by both", nodeIsSeenByBoth)
	t.Run("a silent node leaves both", silentNodeLeavesBoth)
	t.Run("a language is withdrawn from both", languageIsWithdrawnFromBoth)
}

func nodeIsSeenByBoth(t *testing.T) {
	t.Parallel()
	const registrations = 30
	instances := startCluster(t, redistest.Start(t).URL(), config.Default(), nil)
	pool := instances[1].Fleet.Route(core.Direction{Src: "en", Tgt: "zh"}, false).Stops[0].Index
	var times []time.Duration
	for i := range registrations {
		id := core.NodeID(fmt.Sprintf("n%d", i))
		began := time.Now()
		register(t, instances[0], id, "en", "zh")
		waitUntil(t, "the other instance to see a node", waitLimit, func() bool {
			for m := range pool.All() {
				if m.ID() == id {
					return true
				}
			}
			return false
		})
		times = append(times, time.Since(began))
	}
	sorted(times)
	t.Logf("%d nodes registered on one instance could be selected on the other after p50 %v, p99 %v; promised are 200ms",
		registrations, quantile(times, 0.5), quantile(times, 0.99))
}

func silentNodeLeavesBoth(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	c := &cfg.Scheduler
	c.Nodes.HeartbeatIntervalMS, c.Nodes.PresenceTTLMS, c.Dispatch.HeartbeatStaleMS = 300, 1500, 1500
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)

	ctx, stop := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	defer beating.Wait()
	defer stop()
	silence := make(chan struct{}) // closed when all but one stop sending heartbeats
	var last atomic.Int64          // when the last of those sent a heartbeat, in nanoseconds since the beginning
	began := time.Now()
	ids := make([]core.NodeID, 10)
	for i := range ids {
		ids[i] = core.NodeID(fmt.Sprintf("n%d", i))
		register(t, instances.anyInstance(), ids[i], "en", "zh")
		beating.Go(func() {
			for run.SleepJitter(ctx, c.Nodes.HeartbeatIntervalMS.Duration(), 0.2) {
				select {
				case <-silence:
					if i > 0 {
						return
					}
				default:
				}
				_, err := instances.anyInstance().Nodes.Heartbeat(ctx, nodes.Heartbeat{Node: ids[i], Activity: store.Activity{Lists: true}})
				if err == nil && i > 0 {
					last.Store(int64(time.Since(began)))
				}
			}
		})
	}
	waitUntil(t, "both instances to see all nodes", waitLimit, func() bool { return instances.allSee(ids...) })
	close(silence)
	waitUntil(t, "silent nodes to leave both fleets", waitLimit, func() bool {
		for _, in := range instances {
			for _, id := range ids[1:] {
				if in.Fleet.Node(id) != nil {
					return false
				}
			}
		}
		return true
	})
	t.Logf("silent nodes had left both fleets %v after their last heartbeat; promised are %v",
		(time.Since(began) - time.Duration(last.Load())).Round(time.Millisecond), c.Nodes.PresenceTTLMS.Duration()+time.Second)
	waitUntil(t, "the other node to be in both fleets", waitLimit, func() bool { return instances.allSee(ids[0]) })
}

// languageIsWithdrawnFromBoth: once a heartbeat without a language was answered by one instance, the
// other grants no jobs of that language, although its fleet is not current: what Redis sends to it is delayed.
func languageIsWithdrawnFromBoth(t *testing.T) {
	t.Parallel()
	const (
		rounds  = 25
		callers = 3
		delay   = 10 * time.Millisecond
	)
	transport := newInstantTransport()
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr())
	instances := append(startInstances(t, 1, redis.URL(), config.Default(), transport), startInstances(t, 1, proxy.URL(), config.Default(), transport)...)
	transport.jobs.Store(instances[1].Jobs)
	var serial, down, stale atomic.Int64
	dispatchOne := func() error {
		for began := time.Now(); ; down.Add(1) {
			_, err := instances[1].Jobs.Dispatch(t.Context(), requestFor(fmt.Sprintf("r%d", serial.Add(1))))
			// The machine may be too busy for Redis to answer in time: then the dispatch is repeated.
			if e := new(wire.Error); !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown || time.Since(began) > waitLimit {
				return err
			}
			run.Sleep(t.Context(), pollInterval(time.Since(began)))
		}
	}
	declare := func(langs ...core.Lang) {
		t.Helper()
		beat := nodes.Heartbeat{Node: "n", Change: declaration(langs...), Activity: store.Activity{Lists: true}}
		retryWhileDown(t, func() error {
			_, err := instances[0].Nodes.Heartbeat(t.Context(), beat)
			return err
		})
	}
	register(t, instances[0], "n", "en", "zh")
	waitUntil(t, "both instances to see the node", waitLimit, func() bool { return instances.allSee("n") })
	proxy.Delay(delay)
	made := 0
	for ; made < rounds || stale.Load() == 0 && made < 100*rounds; made++ { // a machine that is slow here sees few withdrawals too late
		waitUntil(t, "the language to be served", waitLimit, func() bool {
			declare("en", "zh")
			return dispatchOne() == nil
		})
		declare("de", "zh")
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				if n := instances[1].Fleet.Node("n"); n != nil && slices.Contains(n.Declared().Semantic, "en") {
					stale.Add(1)
				}
				if err := dispatchOne(); err == nil {
					t.Error("a job was granted in a language that the node had withdrawn")
				}
			})
		}
		calls.Wait()
	}
	t.Logf("%d dispatches after a withdrawal, %d of them with a stale fleet: none was granted; not answered in time: %d",
		made*callers, stale.Load(), down.Load())
	if stale.Load() == 0 {
		t.Error("no dispatch was made with a stale fleet: the test does not cover it")
	}
}

// TestDisconnectIsSeenByOtherInstances: an instance to which a node is not connected does not choose it from a second after the
// loss of its connection on, and chooses it again when it is back.
func TestDisconnectIsSeenByOtherInstances(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	withoutHeartbeats(&cfg)
	cfg.Scheduler.Sessions.DisconnectGraceMS = 600_000
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	stalled := detectStalls(t)
	// explained returns why the other instance would not give the node a job.
	explained := func() string {
		var x wire.ExplainResponse
		in := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es"}
		retryWhileDown(t, func() error { return instances[1].peer.Post(t.Context(), "/v1/dispatch/explain", in, &x) })
		if len(x.Nodes) != 1 {
			return "NOT_SEEN"
		}
		return x.Nodes[0].Reason
	}
	await := func(what, want string) time.Duration {
		t.Helper()
		got := want
		defer func() {
			if got != want {
				t.Logf("the reason is %q, want %q", got, want)
			}
		}()
		return waitUntil(t, "the other instance to see "+what, waitLimit, func() bool {
			got = explained()
			return got == want
		})
	}
	ws, ack := connectNode(t, instances[0], "n1", "", ownSecret)
	await("the node", "")
	for range 3 {
		stalled.TakeDelayed()
		_ = ws.CloseNow()
		within := await("the loss", "DISCONNECTED")
		if stall := stalled.TakeDelayed(); within > time.Second+3*stall {
			t.Errorf("the loss was seen after %s; this process was delayed for %s", within, stall)
		}
		var refused *wire.Error
		in := wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es"}
		retryWhileDown(t, func() error {
			err := instances[1].peer.Post(t.Context(), "/v1/dispatch/f2f", in, new(wire.DispatchResponse))
			if errors.As(err, &refused) && refused.Code == wire.SchedulerDependencyDown {
				return err
			}
			return nil
		})
		if refused == nil || refused.Reasons["DISCONNECTED"] != 1 {
			t.Errorf("dispatch to a disconnected node: %+v", refused)
		}
		var again wire.NodeRegisterAck
		if ws, again = connectNode(t, instances[0], "n1", "", ack.ResumeToken); again.Status != "resumed" || again.Epoch != ack.Epoch {
			t.Fatalf("%+v", again)
		}
		await("that it is back", "")
	}
}

// connectNode connects and registers a node, with a key unless it is empty. On a busy machine Redis may not answer in time: then it does so again.
func connectNode(t *testing.T, in *instance, id, key, token string) (ws *fleet.Socket, ack wire.NodeRegisterAck) {
	t.Helper()
	register := map[string]any{
		"type": "node_register", "node_id": id, "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 100,
		"active": []any{}, "resume_token": token,
	}
	retryUntilOK(t, func() error {
		ws = fleet.Connect(t, in.peer.URL, "/ws/node", key)
		ws.Send(register)
		_, data, err := ws.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ack = (wire.NodeRegisterAck{}); json.Unmarshal(data, &ack) != nil || ack.Status == "" {
			return fmt.Errorf("no acknowledgement: %s", data)
		}
		return nil
	})
	return ws, ack
}

// TestEjectionIsSeenByAllInstances: a decision on the slots of a node is in force on every instance within a second, whichever made it, and
// a stale one is refused.
func TestEjectionIsSeenByAllInstances(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	withoutHeartbeats(&cfg)
	instances := startInstances(t, 3, redistest.Start(t).URL(), cfg, nil)
	register(t, instances[0], "n1", "en", "zh")
	slotsAre := func(want int) func() bool {
		return func() bool {
			return !slices.ContainsFunc(instances, func(in *instance) bool {
				n := in.Fleet.Node("n1")
				return n == nil || n.Summary().Slots() != want || n.Summary().Ejected() != (want == 0)
			})
		}
	}
	waitUntil(t, "all instances to see the node", waitLimit, slotsAre(1000))
	stalled := detectStalls(t)
	admit := func(in *instance, fence int64, a core.Admission) (admitted bool) {
		t.Helper()
		retryWhileDown(t, func() (err error) {
			_, admitted, err = in.Store.Admit(t.Context(), store.AdmitParams{Node: "n1", Fence: fence, Admission: a, For: time.Minute})
			return err
		})
		return admitted
	}
	var longest time.Duration
	for round := range 10 {
		by, fence := instances[round%3], int64(2*round+2)
		for i, want := range []int{0, 1, 500, 1000} {
			a := core.Admission{Limited: want < 1000, Reason: core.AdmissionFailing, Times: round}
			if a.Limited {
				a.Slots = want
			}
			stalled.TakeDelayed()
			if !admit(by, fence, a) {
				t.Fatalf("decision %d of round %d is fenced", i, round)
			}
			within := waitUntil(t, "all instances to see the decision", waitLimit, slotsAre(want))
			if stall := stalled.TakeDelayed(); within > time.Second+3*stall {
				t.Errorf("%d slots were seen after %s; this process was delayed for %s", want, within, stall)
			}
			longest = max(longest, within)
			if admit(instances[(round+1)%3], fence-1, core.Admission{Limited: true, Slots: 7, Reason: core.AdmissionSilent}) {
				t.Error("a stale leader's decision was accepted")
			}
		}
	}
	t.Logf("decisions were seen by three instances within %s", longest)
}

// TestNodeThatReconnectsElsewhereRegistersAgain: a node that connects to another instance gets a new epoch, although its resume
// token is valid there: so the end of its grace period at the first instance does not affect it.
func TestNodeThatReconnectsElsewhereRegistersAgain(t *testing.T) {
	t.Parallel()
	const key = "an-operator-key-of-some-length"
	cfg := fastConfig()
	withoutHeartbeats(&cfg)
	cfg.Auth.OperatorKeys, cfg.Auth.SessionSecret = []string{key}, "a secret of at least thirty-two characters"
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	connect := func(to int, token string) wire.NodeRegisterAck {
		t.Helper()
		_, ack := connectNode(t, instances[to], "n1", key, token)
		return ack
	}
	earlier := connect(0, ownSecret)
	_, secret, _ := strings.Cut(earlier.ResumeToken, ".")
	first := connect(0, secret) // without its epoch the secret begins another one
	if again := connect(0, first.ResumeToken); again.Status != "resumed" || again.Epoch != first.Epoch {
		t.Errorf("at the same instance: %+v", again)
	}
	waitUntil(t, "the other instance to see the node", waitLimit, func() bool { return instances.allSee("n1") })
	if n := instances.sumMetric(t, "lingua_takeovers_total", "kind")["node"]; n != 0 {
		t.Errorf("%d takeovers of nodes are counted at the same instance", n)
	}
	if other := connect(1, first.ResumeToken); other.Status != "registered" || other.Epoch == first.Epoch {
		t.Errorf("at another instance: %+v", other)
	}
	if n := instances.sumMetric(t, "lingua_takeovers_total", "kind")["node"]; n != 1 {
		t.Errorf("%d takeovers of nodes are counted, want 1", n)
	}
}

// TestJobsAreListedByEveryInstance: a job that has ended on any instance is listed once by every instance.
func TestJobsAreListedByEveryInstance(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	patient(&cfg)
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	slots := 4
	startCallbackNode(t, fleet.CallbackOptions{
		ID: "n1", API: func() *lab.API { return instances[0].peer },
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots},
	})
	waitUntil(t, "both instances to see the node", waitLimit, func() bool { return instances[0].Fleet.Node("n1") != nil && instances[1].Fleet.Node("n1") != nil })
	want := make(map[string]bool)
	for i := range 6 {
		var placed wire.DispatchResponse
		in := wire.DispatchRequest{SessionID: "session-1", SrcLang: "en", TgtLang: "zh"}
		waitUntil(t, "a slot", waitLimit, func() bool { return instances[i%2].peer.Post(t.Context(), "/v1/dispatch/f2f", in, &placed) == nil })
		want[placed.JobID] = true
	}
	for _, at := range instances {
		var list wire.JobList
		waitUntil(t, "all jobs to be done", waitLimit, func() bool {
			retryWhileDown(t, func() error { return at.peer.Get(t.Context(), "/v1/jobs?state=DONE", &list) })
			return len(list.Jobs) >= len(want)
		})
		seen := make(map[string]int)
		for _, job := range list.Jobs {
			seen[job.JobID]++
		}
		for id := range want {
			if seen[id] != 1 {
				t.Errorf("%s is listed %d times at %s", id, seen[id], at.peer.URL)
			}
		}
		waitUntil(t, "two jobs", waitLimit, func() bool {
			retryWhileDown(t, func() error { return at.peer.Get(t.Context(), "/v1/jobs?limit=2", &list) })
			if len(list.Jobs) > 2 {
				t.Fatalf("limit 2: %d jobs", len(list.Jobs))
			}
			return len(list.Jobs) == 2
		})
		var all wire.InstanceList
		retryWhileDown(t, func() error { return at.peer.Get(t.Context(), "/v1/instances", &all) })
		if len(all.Instances) != 2 {
			t.Errorf("%+v", all)
		}
	}
}

// TestJobsOfASessionAreSpreadOverInstances: HTTP requests of one session that reach two instances in turn avoid the node of the job
// before, which the instances share through Redis.
func TestJobsOfASessionAreSpreadOverInstances(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	patient(&cfg)
	withoutRetries(&cfg)
	cfg.Scheduler.TaskBinding.SpreadEnabled = true
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	slots := 100
	for _, id := range []string{"n1", "n2"} {
		startCallbackNode(t, fleet.CallbackOptions{
			ID: id, API: func() *lab.API { return instances[0].peer },
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots},
		})
	}
	waitUntil(t, "both instances to see the nodes", waitLimit, func() bool { return instances.allSee("n1", "n2") })
	last := ""
	for i := range 30 {
		var placed wire.DispatchResponse
		in := wire.DispatchRequest{RequestID: fmt.Sprint("r", i), SessionID: "session-1", SrcLang: "en", TgtLang: "zh"}
		retryWhileDown(t, func() error { return instances[i%2].peer.Post(t.Context(), "/v1/dispatch/f2f", in, &placed) })
		if placed.NodeID == last {
			t.Errorf("job %d was given to %s, like the one before", i, last)
		}
		last = placed.NodeID
	}
	if got := instances.sumMetric(t, "lingua_session_successions_total", "same_node"); got["true"] != 0 || got["false"] != 29 {
		t.Errorf("successions: %v", got)
	}
}
