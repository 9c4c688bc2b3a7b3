package node_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// startIdleNode runs a node whose jobs last until the test ends.
func startIdleNode(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	cfg.ShutdownTimeout = 1
	n, err := node.FastTiming{StopTimeout: 10 * time.Millisecond}.New(cfg, waitForCancel)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = n.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return n
}

// changesIn returns the changes of the declaration that a heartbeat reports.
func changesIn(hb wire.NodeHeartbeat) wire.Declaration {
	hb.Active = nil
	return hb.Declaration
}

// A heartbeat reports a change at once and nothing else. A registration reports the whole declaration.
func TestUpdateReportsChanges(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	n := startIdleNode(t, cfg)
	p, _ := s.register(defaultAck) // heartbeats are a minute apart
	p.sync()
	langs := []string{"en", "es", "fr"}
	for _, change := range []wire.Declaration{
		{Health: "degraded"}, {SemanticLangs: langs, TTSLangs: []string{}}, {Health: "ready", InstalledServices: []wire.Service{{ServiceID: "nmt", Status: "ready"}}},
	} {
		if err := n.Update(change); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(change, changesIn(p.heartbeat())); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
	}
	langs[0] = "xx" // the caller may reuse its slice
	p.drop()
	p, r := s.register(defaultAck)
	p.sync()
	slots := cfg.Slots
	want := wire.Declaration{
		Health: "ready", SemanticLangs: []string{"en", "es", "fr"}, TTSLangs: []string{}, MaxConcurrentJobs: &slots,
		InstalledServices: []wire.Service{{ServiceID: "nmt", Status: "ready"}}, Active: []wire.ActiveAttempt{},
	}
	if diff := cmp.Diff(want, r.Declaration); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
	if err := n.Update(wire.Declaration{Features: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wire.Declaration{Features: []string{"x"}}, changesIn(p.heartbeat())); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// The node applies the new number of slots itself.
func TestUpdateOfSlots(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Slots = 1
	n := startIdleNode(t, cfg)
	p, _ := s.register(defaultAck)
	p.assign("j-1")
	for _, slots := range []int{0, 2, 1} {
		if err := n.Update(wire.Declaration{MaxConcurrentJobs: &slots}); err != nil {
			t.Fatal(err)
		}
		p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
		m, _ := p.next()
		if taken := m.typ == (wire.JobAck{}).Type(); taken != (slots == 2) {
			t.Errorf("with %d slots: %s", slots, m.typ)
		}
		if slots == 2 {
			p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "j-2", AttemptID: 1}})
			expect[wire.JobCancelled](p)
		}
	}
}

// A change that the current registration does not contain is reported after its answer, and again when a new epoch begins.
func TestUpdateDuringRegistration(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	n := startIdleNode(t, cfg)
	p := s.awaitConn()
	expect[wire.NodeRegister](p)
	if err := n.Update(wire.Declaration{Health: "degraded"}); err != nil {
		t.Fatal(err)
	}
	p.send(defaultAck)
	if hb := p.heartbeat(); hb.Health != "degraded" {
		t.Errorf("reported %+v", hb)
	}
	again := defaultAck
	again.Epoch = 8
	p.send(again)
	for hb := p.heartbeat(); *hb.Epoch != 8 || hb.Health != "degraded"; hb = p.heartbeat() {
		continue
	}
}

func TestUpdateBeforeRun(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n, err := node.FastTiming{}.New(testConfig(s.URL), respondEcho)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Update(wire.Declaration{Health: "degraded"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	if _, r := s.register(defaultAck); r.Health != "degraded" {
		t.Errorf("registered as %q", r.Health)
	}
	stop()
	if err := receive(t, ended, "the end"); err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := n.Run(t.Context()); err == nil {
		t.Error("a node ran twice")
	}
}

func TestInvalidUpdate(t *testing.T) {
	t.Parallel()
	n, err := node.New(testConfig("http://127.0.0.1:1"), respondEcho)
	if err != nil {
		t.Fatal(err)
	}
	text, many := "x", 10001
	for want, change := range map[string]wire.Declaration{
		"Active":            {Active: []wire.ActiveAttempt{}},
		"CurrentLoad":       {CurrentLoad: &wire.Load{}},
		"TenantID":          {TenantID: &text},
		"CallbackURL":       {CallbackURL: &text},
		"SemanticLangs":     {SemanticLangs: []string{}},
		"Health":            {Health: "well"},
		"MaxConcurrentJobs": {MaxConcurrentJobs: &many},
		"bytes":             {Features: []string{strings.Repeat("x", wire.MaxFrame)}},
	} {
		if err := n.Update(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Many changes cause few heartbeats, and the last change is reported.
func TestUpdatesAreCoalesced(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startIdleNode(t, testConfig(s.URL))
	p, _ := s.register(defaultAck)
	p.sync()
	began := time.Now()
	for i := range 2000 {
		if err := n.Update(wire.Declaration{Features: []string{fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	reported := 1
	for ; !slices.Equal(p.heartbeat().Features, []string{"1999"}); reported++ {
		continue
	}
	if limit := 2 + int(time.Since(began)/(50*time.Millisecond)); reported > limit {
		t.Errorf("%d heartbeats within %v", reported, time.Since(began))
	}
}

// A change is reported again if the scheduler could not store it, and not if it was invalid.
func TestFailedUpdateIsReportedAgain(t *testing.T) {
	t.Parallel()
	for code, again := range map[wire.Code]bool{wire.SchedulerDependencyDown: true, wire.InvalidRequest: false} {
		s := newFakeScheduler(t)
		n := startIdleNode(t, testConfig(s.URL))
		ack := defaultAck
		ack.HeartbeatIntervalMS = 20
		p, _ := s.register(ack)
		if err := n.Update(wire.Declaration{Health: "degraded"}); err != nil {
			t.Fatal(err)
		}
		for p.heartbeat().Health == "" {
			continue
		}
		p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.SchedulerDependencyDown, "not now"), ReplyTo: "job_result"})
		p.send(wire.ErrorFrame{Error: *wire.Errorf(code, "refused"), ReplyTo: "node_heartbeat"})
		reported, until := 0, time.Now().Add(timeout)
		for beats := 0; beats < 20 || again && reported == 0 && time.Now().Before(until); beats++ {
			if p.heartbeat().Health == "degraded" {
				reported, beats = reported+1, 0
			}
		}
		if reported > 1 || again != (reported == 1) {
			t.Errorf("after %s it was reported %d more times", code, reported)
		}
	}
}

// The last state of each service holds until a new list of services.
func TestUpdateOfServiceStates(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Declaration.InstalledServices = []wire.Service{{ServiceID: "asr", Status: "ready"}, {ServiceID: "nmt", Status: "ready"}}
	n := startIdleNode(t, cfg)
	p, _ := s.register(defaultAck)
	p.sync()
	for _, states := range []map[string]string{{"asr": "error"}, {"nmt": "stopped"}, {"asr": "ready"}} {
		if err := n.Update(wire.Declaration{CapabilityState: states}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wire.Declaration{CapabilityState: states}, changesIn(p.heartbeat())); diff != "" {
			t.Errorf("heartbeat (-want +got):\n%s", diff)
		}
	}
	p.drop()
	p, again := s.register(defaultAck)
	if diff := cmp.Diff(map[string]string{"asr": "ready", "nmt": "stopped"}, again.CapabilityState); diff != "" {
		t.Errorf("registered again (-want +got):\n%s", diff)
	}
	p.sync()
	if err := n.Update(wire.Declaration{InstalledServices: cfg.Declaration.InstalledServices}); err != nil {
		t.Fatal(err)
	}
	p.heartbeat()
	p.drop()
	if _, again = s.register(defaultAck); again.CapabilityState != nil {
		t.Errorf("registered with %v although a new list has the states of its services", again.CapabilityState)
	}
}
