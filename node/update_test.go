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

// made makes a node whose jobs last until the test ends, and runs it.
func made(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	cfg.ShutdownTimeout = 1
	n, err := node.Quick{Quit: 10 * time.Millisecond}.New(cfg, untilEnd)
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

// settled waits until the node has read what was sent to it.
func (p *peer) settled() {
	p.t.Helper()
	p.send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: "mark"}})
	expect[wire.JobCancelled](p)
}

// changes is what a heartbeat says beside what every one does.
func changes(hb wire.NodeHeartbeat) wire.Declaration {
	hb.Active = nil
	return hb.Declaration
}

// TestUpdate: what changed is said at once, and only that; and all of it after a reconnect.
func TestUpdate(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	n := made(t, cfg)
	p, _ := s.registered(anyAck) // whose heartbeats are a minute apart
	p.settled()
	langs := []string{"en", "es", "fr"}
	for _, change := range []wire.Declaration{
		{Health: "degraded"}, {SemanticLangs: langs, TTSLangs: []string{}}, {Health: "ready", InstalledServices: []wire.Service{{ServiceID: "nmt", Status: "ready"}}},
	} {
		if err := n.Update(change); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(change, changes(p.heartbeat())); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
	}
	langs[0] = "xx" // the caller's own again
	p.cut()
	p, r := s.registered(anyAck)
	p.settled()
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
	if diff := cmp.Diff(wire.Declaration{Features: []string{"x"}}, changes(p.heartbeat())); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

// TestUpdateOfSlots: the node itself keeps to them.
func TestUpdateOfSlots(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Slots = 1
	n := made(t, cfg)
	p, _ := s.registered(anyAck)
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

// TestUpdateMeanwhile: a change that the registration under way does not have is said as soon as that is answered, and again
// when the scheduler begins another life of the node: the first may not have been told.
func TestUpdateMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	n := made(t, cfg)
	p := s.connection()
	expect[wire.NodeRegister](p)
	if err := n.Update(wire.Declaration{Health: "degraded"}); err != nil {
		t.Fatal(err)
	}
	p.send(anyAck)
	if hb := p.heartbeat(); hb.Health != "degraded" {
		t.Errorf("said %+v", hb)
	}
	again := anyAck
	again.Epoch = 8
	p.send(again)
	for hb := p.heartbeat(); *hb.Epoch != 8 || hb.Health != "degraded"; hb = p.heartbeat() {
		continue
	}
}

// TestUpdateBeforeRun: it is registered with it.
func TestUpdateBeforeRun(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	n, err := node.Quick{}.New(basic(s.URL), echo)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Update(wire.Declaration{Health: "degraded"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	if _, r := s.registered(anyAck); r.Health != "degraded" {
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

func TestUpdateIsChecked(t *testing.T) {
	t.Parallel()
	n, err := node.New(basic("http://127.0.0.1:1"), echo)
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

// TestUpdateInHaste: many changes make few heartbeats, and the last of them is said.
func TestUpdateInHaste(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	n := made(t, basic(s.URL))
	p, _ := s.registered(anyAck)
	p.settled()
	began := time.Now()
	for i := range 2000 {
		if err := n.Update(wire.Declaration{Features: []string{fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	said := 1
	for ; !slices.Equal(p.heartbeat().Features, []string{"1999"}); said++ {
		continue
	}
	if most := 2 + int(time.Since(began)/(50*time.Millisecond)); said > most {
		t.Errorf("%d heartbeats within %v", said, time.Since(began))
	}
}

// TestUpdateThatWasLost: a change that the scheduler could not keep is said again with the next heartbeat; one that it did
// not want is not.
func TestUpdateThatWasLost(t *testing.T) {
	t.Parallel()
	for code, again := range map[wire.Code]bool{wire.SchedulerDependencyDown: true, wire.InvalidRequest: false} {
		s := newScheduler(t)
		n := made(t, basic(s.URL))
		ack := anyAck
		ack.HeartbeatIntervalMS = 20
		p, _ := s.registered(ack)
		if err := n.Update(wire.Declaration{Health: "degraded"}); err != nil {
			t.Fatal(err)
		}
		for p.heartbeat().Health == "" {
			continue
		}
		p.send(wire.ErrorFrame{Error: *wire.Errorf(wire.SchedulerDependencyDown, "not now"), ReplyTo: "job_result"})
		p.send(wire.ErrorFrame{Error: *wire.Errorf(code, "not like this"), ReplyTo: "node_heartbeat"})
		said := 0
		for range 20 {
			if p.heartbeat().Health == "degraded" {
				said++
			}
		}
		if said > 1 || again != (said == 1) {
			t.Errorf("after %s it was said %d times more", code, said)
		}
	}
}

// TestUpdateOfServiceStates: of each service the last status stands, until another list of services says itself how they are.
func TestUpdateOfServiceStates(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Declaration.InstalledServices = []wire.Service{{ServiceID: "asr", Status: "ready"}, {ServiceID: "nmt", Status: "ready"}}
	n := made(t, cfg)
	p, _ := s.registered(anyAck)
	p.settled()
	for _, states := range []map[string]string{{"asr": "error"}, {"nmt": "stopped"}, {"asr": "ready"}} {
		if err := n.Update(wire.Declaration{CapabilityState: states}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wire.Declaration{CapabilityState: states}, changes(p.heartbeat())); diff != "" {
			t.Errorf("heartbeat (-want +got):\n%s", diff)
		}
	}
	p.cut()
	p, again := s.registered(anyAck)
	if diff := cmp.Diff(map[string]string{"asr": "ready", "nmt": "stopped"}, again.CapabilityState); diff != "" {
		t.Errorf("registered again (-want +got):\n%s", diff)
	}
	p.settled()
	if err := n.Update(wire.Declaration{InstalledServices: cfg.Declaration.InstalledServices}); err != nil {
		t.Fatal(err)
	}
	p.heartbeat()
	p.cut()
	if _, again = s.registered(anyAck); again.CapabilityState != nil {
		t.Errorf("registered with %v although a new list says how its services are", again.CapabilityState)
	}
}
