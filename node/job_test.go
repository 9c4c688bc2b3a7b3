package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestJobRoundTrip(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p, _ := s.register(defaultAck)
	before := time.Now()
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 2}
	p.send(wire.JobAssign{
		JobID: "j-1", AttemptID: 2, SessionID: "s-1", SrcLang: "en", TgtLang: "es", Options: wire.DispatchOptions{RequireTTS: true},
		DeadlineMS: 1, TimeoutMS: 60_000, Partials: true, Audio: &wire.Audio{Ref: "x://y", DurationMS: 1500, AudioFormat: wire.AudioFormat{SampleRate: 8000}},
	})
	p.expectAck(key)
	j := n.awaitCall()
	if j.ID != "j-1" || j.Attempt != 2 || j.Session != "s-1" || j.Src != "en" || j.Tgt != "es" || !j.Options.RequireTTS || j.AudioRef != "x://y" ||
		j.Duration != 1500*time.Millisecond || j.Format != (wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 8000, Channels: 1}) {
		t.Errorf("job %+v", j.Job)
	}
	// The deadline counts from the receipt, because the clock of the scheduler, 1970 here, may differ.
	if left := j.Deadline.Sub(before); left < 60*time.Second || left > 60*time.Second+timeout {
		t.Errorf("the deadline is in %v, want 60 s", left)
	}
	j.Partial(node.Partial{Stage: "asr", TextSrc: "hel"})
	j.Partial(node.Partial{Stage: "nmt", TextSrc: "hello", TextTgt: "ho"})
	for _, want := range []wire.JobPartial{
		{ActiveJob: key, Rev: 1, Stage: "asr", TextSrc: "hel"},
		{ActiveJob: key, Rev: 2, Stage: "nmt", TextSrc: "hello", TextTgt: "ho"},
	} {
		if diff := cmp.Diff(want, expect[wire.JobPartial](p)); diff != "" {
			t.Errorf("partial (-want +got):\n%s", diff)
		}
	}
	j.reply <- reply{Result: node.Result{
		TextSrc: "hello <3", TextTgt: "hola", StagesMS: map[string]int64{"asr": 120}, Extra: map[string]any{"tone": "warm", "text_tgt": "no"},
	}}
	got := expect[wire.JobResult](p)
	want := `{"latency":{"asr":120},"text_src":"hello <3","text_tgt":"hola","tone":"warm"}`
	if string(got.Result) != want || got.ActiveJob != key || got.TTS {
		t.Errorf("result %s of %v, want %s", got.Result, got.ActiveJob, want)
	}
	j.Partial(node.Partial{TextSrc: "too late"})
	p.acknowledge(key)
	p.assign("j-2") // and no message before it
}

func TestPartialsAreOmittedUnlessWanted(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p, _ := s.register(defaultAck)
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1})
	p.expectAck(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
	j := n.awaitCall()
	if !j.Deadline.IsZero() {
		t.Errorf("deadline %v of a job that has none", j.Deadline)
	}
	j.Partial(node.Partial{TextSrc: "hel"})
	j.finish("hola")
	expect[wire.JobResult](p)
}

// Each error of a handler gives the reason that the scheduler receives.
func TestFailureReasons(t *testing.T) {
	t.Parallel()
	var missing *node.Result
	deep := any("bottom")
	for range 40 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct {
		handler node.Handler
		want    string
	}{
		"an error":          {failWith(errors.New("out of luck")), "NODE_FAILED"},
		"a reason":          {failWith(fmt.Errorf("sorry: %w", node.Fail("OUT_OF_MEMORY"))), "OUT_OF_MEMORY"},
		"no reason":         {failWith(node.Fail("")), "NODE_FAILED"},
		"too long a reason": {failWith(node.Fail(strings.Repeat("x", wire.MaxFrame))), "NODE_FAILED"},
		"busy":              {failWith(node.ErrBusy), "NODE_BUSY"},
		"no audio": {func(ctx context.Context, j *node.Job) (node.Result, error) {
			_, err := j.Audio(ctx)
			return node.Result{}, err
		}, "NO_AUDIO"},
		"panic":        {func(context.Context, *node.Job) (node.Result, error) { panic("oh") }, "NODE_PANIC"},
		"nil":          {func(context.Context, *node.Job) (node.Result, error) { return *missing, nil }, "NODE_PANIC"},
		"exit":         {func(context.Context, *node.Job) (node.Result, error) { runtime.Goexit(); return node.Result{}, nil }, "NODE_PANIC"},
		"not JSON":     {respondWith(node.Result{Extra: map[string]any{"x": math.NaN()}}), "RESULT_INVALID"},
		"too large":    {respondWith(node.Result{TextTgt: strings.Repeat("x", wire.MaxFrame)}), "RESULT_INVALID"},
		"nested":       {respondWith(node.Result{Extra: map[string]any{"x": deep}}), "RESULT_INVALID"},
		"its deadline": {waitForCancel, "DEADLINE_EXCEEDED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			startNodeWith(t, testConfig(s.URL), node.FastTiming{}, c.handler)
			p, _ := s.register(defaultAck)
			for attempt := 1; attempt <= 2; attempt++ { // the node keeps running
				assign := wire.JobAssign{JobID: "j-1", AttemptID: attempt, TimeoutMS: 60_000}
				if name == "its deadline" {
					assign.TimeoutMS = 50
				}
				p.send(assign)
				key := wire.ActiveJob{JobID: "j-1", AttemptID: attempt}
				p.expectAck(key)
				if got := expect[wire.JobFail](p); got != (wire.JobFail{ActiveJob: key, Reason: c.want}) {
					t.Errorf("sent %+v, want %s", got, c.want)
				}
				p.acknowledge(key)
			}
		})
	}
}

// The scheduler would close the connection over text that is not UTF-8.
func TestInvalidUTF8IsReplaced(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, respondWith(node.Result{TextTgt: "a\xffb", Extra: map[string]any{"raw": json.RawMessage("\"c\xffd\"")}}))
	p, _ := s.register(defaultAck)
	p.assign("j-1")
	if got, want := string(expect[wire.JobResult](p).Result), `{"raw":"c�d","text_src":"","text_tgt":"a\ufffdb"}`; got != want {
		t.Errorf("result %s, want %s", got, want)
	}
}

func TestNotAvailableError(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, failWith(fmt.Errorf("nmt: %w", node.NotAvailableError{Service: "nmt-en-es", Version: "1.2", Reason: "gone"})))
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	want := wire.ModelNotAvailable{ServiceID: "nmt-en-es", Version: "1.2", Reason: "gone", JobID: "j-1", AttemptID: 1}
	if got := expect[wire.ModelNotAvailable](p); got != want {
		t.Errorf("sent %+v, want %+v", got, want)
	}
	if got := expect[wire.JobFail](p); got != (wire.JobFail{ActiveJob: key, Reason: "MODEL_NOT_AVAILABLE"}) {
		t.Errorf("sent %+v", got)
	}
}

// A slot is free again when its handler has returned.
func TestJobsBeyondSlotsAreRejected(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg, full := testConfig(s.URL), make(chan wire.ActiveJob, 1)
	cfg.OnFull = func(job wire.ActiveJob) { full <- job }
	n := startNode(t, cfg, node.FastTiming{})
	p, _ := s.register(defaultAck)
	first := p.assign("j-1")
	p.assign("j-2")
	refused := wire.JobReject{ActiveJob: wire.ActiveJob{JobID: "j-3", AttemptID: 1}, Reason: "NODE_BUSY"}
	p.send(wire.JobAssign{JobID: "j-3", AttemptID: 1})
	if got := expect[wire.JobReject](p); got != refused {
		t.Errorf("answered %+v, want %+v", got, refused)
	}
	if got := <-full; got != refused.ActiveJob {
		t.Errorf("OnFull(%+v)", got)
	}
	// Audio of a rejected job is ignored.
	p.sendAudio(refused.ActiveJob, 0, "…", true)

	one := n.awaitCall()
	if one.ID != "j-1" {
		one = n.awaitCall()
	}
	one.finish("hola")
	expect[wire.JobResult](p)
	p.acknowledge(first)
	p.assign("j-4")
}

func TestConcurrencyNeverExceedsSlots(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	cfg := testConfig(s.URL)
	cfg.Slots = 3
	var now, highest atomic.Int64
	startNodeWith(t, cfg, node.FastTiming{}, func(context.Context, *node.Job) (node.Result, error) {
		highest.Store(max(highest.Load(), now.Add(1)))
		defer now.Add(-1)
		runtime.Gosched()
		return node.Result{}, nil
	})
	p, _ := s.register(defaultAck)
	const jobs = 500
	go func() {
		for i := range jobs {
			p.send(wire.JobAssign{JobID: fmt.Sprint("j-", i), AttemptID: 1})
		}
	}()
	taken, refused, done := 0, 0, 0
	for taken+refused < jobs || done < taken {
		switch m, _ := p.next(); m.typ {
		case "job_ack":
			taken++
		case "job_reject":
			refused++
		case "job_result":
			done++
			p.acknowledge(decode[wire.JobResult](t, m).ActiveJob)
		default:
			t.Fatalf("the node sent %q", m.typ)
		}
	}
	if highest.Load() > 3 || taken == 0 {
		t.Errorf("%d at once, want at most 3 (%d taken, %d refused)", highest.Load(), taken, refused)
	}
}

func TestRepeatedAssignRunsOnce(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n := startNode(t, testConfig(s.URL), node.FastTiming{})
	p, _ := s.register(defaultAck)
	key := p.assign("j-1")
	p.assign("j-1") // acknowledged again
	n.awaitCall().finish("hola")
	first := expect[wire.JobResult](p)
	p.assign("j-0") // by its ACK the node has noticed that the result was written
	n.awaitCall()
	p.assign("j-1") // finished: acknowledged, and the result is resent
	if diff := cmp.Diff(first, expect[wire.JobResult](p)); diff != "" {
		t.Errorf("sent again (-first +second):\n%s", diff)
	}
	p.acknowledge(key)
	p.assign("j-2")
	if got := n.awaitCall(); got.ID != "j-2" {
		t.Errorf("%s was executed a second time", got.ID)
	}
}

func TestNotAvailableErrorPointer(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	startNodeWith(t, testConfig(s.URL), node.FastTiming{}, failWith(&node.NotAvailableError{Service: "nmt"}))
	p, _ := s.register(defaultAck)
	p.assign("j-1")
	if got := expect[wire.ModelNotAvailable](p); got.ServiceID != "nmt" {
		t.Errorf("sent %+v", got)
	}
}
