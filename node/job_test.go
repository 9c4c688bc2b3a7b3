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

// echo is the simplest handler.
func echo(context.Context, *node.Job) (node.Result, error) { return node.Result{TextTgt: "echo"}, nil }

func TestJob(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p, _ := s.registered(anyAck)
	before := time.Now()
	key := wire.ActiveJob{JobID: "j-1", AttemptID: 2}
	p.send(wire.JobAssign{
		JobID: "j-1", AttemptID: 2, SessionID: "s-1", SrcLang: "en", TgtLang: "es", Options: wire.DispatchOptions{RequireTTS: true},
		DeadlineMS: 1, TimeoutMS: 60_000, Partials: true, Audio: &wire.Audio{Ref: "x://y", DurationMS: 1500, AudioFormat: wire.AudioFormat{SampleRate: 8000}},
	})
	p.confirmed(key)
	j := b.next()
	if j.ID != "j-1" || j.Attempt != 2 || j.Session != "s-1" || j.Src != "en" || j.Tgt != "es" || !j.Options.RequireTTS || j.AudioRef != "x://y" ||
		j.Duration != 1500*time.Millisecond || j.Format != (wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 8000, Channels: 1}) {
		t.Errorf("job %+v", j.Job)
	}
	// The deadline counts from the receipt: the scheduler's clock, which says 1970 here, may be another.
	if left := j.Deadline.Sub(before); left < 60*time.Second || left > 60*time.Second+patience {
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
	p.assign("j-2") // and nothing before it
}

// TestPartialsForNobody: they are not sent when nobody reads them.
func TestPartialsForNobody(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p, _ := s.registered(anyAck)
	p.send(wire.JobAssign{JobID: "j-1", AttemptID: 1})
	p.confirmed(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
	j := b.next()
	if !j.Deadline.IsZero() {
		t.Errorf("deadline %v of a job that has none", j.Deadline)
	}
	j.Partial(node.Partial{TextSrc: "hel"})
	j.done("hola")
	expect[wire.JobResult](p)
}

// TestFailures: what a handler returns, and what the scheduler is told.
func TestFailures(t *testing.T) {
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
		"an error":    {failing(errors.New("out of luck")), "NODE_FAILED"},
		"a reason":    {failing(fmt.Errorf("sorry: %w", node.Fail("OUT_OF_MEMORY"))), "OUT_OF_MEMORY"},
		"no reason":   {failing(node.Fail("")), "NODE_FAILED"},
		"a long tale": {failing(node.Fail(strings.Repeat("x", wire.MaxFrame))), "NODE_FAILED"},
		"busy":        {failing(node.ErrBusy), "NODE_BUSY"},
		"no audio": {func(ctx context.Context, j *node.Job) (node.Result, error) {
			_, err := j.Audio(ctx)
			return node.Result{}, err
		}, "NO_AUDIO"},
		"panic":        {func(context.Context, *node.Job) (node.Result, error) { panic("oh") }, "NODE_PANIC"},
		"nil":          {func(context.Context, *node.Job) (node.Result, error) { return *missing, nil }, "NODE_PANIC"},
		"exit":         {func(context.Context, *node.Job) (node.Result, error) { runtime.Goexit(); return node.Result{}, nil }, "NODE_PANIC"},
		"not JSON":     {returning(node.Result{Extra: map[string]any{"x": math.NaN()}}), "RESULT_INVALID"},
		"too large":    {returning(node.Result{TextTgt: strings.Repeat("x", wire.MaxFrame)}), "RESULT_INVALID"},
		"nested":       {returning(node.Result{Extra: map[string]any{"x": deep}}), "RESULT_INVALID"},
		"its deadline": {untilEnd, "DEADLINE_EXCEEDED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler(t)
			serve(t, basic(s.URL), node.Quick{}, c.handler)
			p, _ := s.registered(anyAck)
			for attempt := 1; attempt <= 2; attempt++ { // the node lives on
				p.send(wire.JobAssign{JobID: "j-1", AttemptID: attempt, TimeoutMS: 50})
				key := wire.ActiveJob{JobID: "j-1", AttemptID: attempt}
				p.confirmed(key)
				if got := expect[wire.JobFail](p); got != (wire.JobFail{ActiveJob: key, Reason: c.want}) {
					t.Errorf("told %+v, want %s", got, c.want)
				}
				p.acknowledge(key)
			}
		})
	}
}

func failing(err error) node.Handler {
	return func(context.Context, *node.Job) (node.Result, error) { return node.Result{}, err }
}

func returning(r node.Result) node.Handler {
	return func(context.Context, *node.Job) (node.Result, error) { return r, nil }
}

func untilEnd(ctx context.Context, _ *node.Job) (node.Result, error) {
	<-ctx.Done()
	return node.Result{}, ctx.Err()
}

// TestInvalidText: what is not UTF-8 would end the connection.
func TestInvalidText(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, returning(node.Result{TextTgt: "a\xffb", Extra: map[string]any{"raw": json.RawMessage("\"c\xffd\"")}}))
	p, _ := s.registered(anyAck)
	p.assign("j-1")
	if got, want := string(expect[wire.JobResult](p).Result), `{"raw":"c�d","text_src":"","text_tgt":"a\ufffdb"}`; got != want {
		t.Errorf("result %s, want %s", got, want)
	}
}

func TestMissingModel(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, failing(fmt.Errorf("nmt: %w", node.NotAvailableError{Service: "nmt-en-es", Version: "1.2", Reason: "gone"})))
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	want := wire.ModelNotAvailable{ServiceID: "nmt-en-es", Version: "1.2", Reason: "gone", JobID: "j-1", AttemptID: 1}
	if got := expect[wire.ModelNotAvailable](p); got != want {
		t.Errorf("told %+v, want %+v", got, want)
	}
	if got := expect[wire.JobFail](p); got != (wire.JobFail{ActiveJob: key, Reason: "MODEL_NOT_AVAILABLE"}) {
		t.Errorf("told %+v", got)
	}
}

// TestNoMoreThanSlots: what is too much is refused, at once, and there is room again when a handler has returned.
func TestNoMoreThanSlots(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg, full := basic(s.URL), make(chan wire.ActiveJob, 1)
	cfg.OnFull = func(job wire.ActiveJob) { full <- job }
	b := start(t, cfg, node.Quick{})
	p, _ := s.registered(anyAck)
	first := p.assign("j-1")
	p.assign("j-2")
	refused := wire.JobReject{ActiveJob: wire.ActiveJob{JobID: "j-3", AttemptID: 1}, Reason: "NODE_BUSY"}
	p.send(wire.JobAssign{JobID: "j-3", AttemptID: 1})
	if got := expect[wire.JobReject](p); got != refused {
		t.Errorf("answered %+v, want %+v", got, refused)
	}
	if got := <-full; got != refused.ActiveJob {
		t.Errorf("the author was told of %+v", got)
	}
	// Audio of a job that was refused is nobody's.
	p.audio(refused.ActiveJob, 0, "…", true)

	one := b.next()
	if one.ID != "j-1" {
		one = b.next()
	}
	one.done("hola")
	expect[wire.JobResult](p)
	p.acknowledge(first)
	p.assign("j-4")
}

func TestNeverMoreThanSlotsUnderPressure(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Slots = 3
	var now, most atomic.Int64
	serve(t, cfg, node.Quick{}, func(context.Context, *node.Job) (node.Result, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		runtime.Gosched()
		return node.Result{}, nil
	})
	p, _ := s.registered(anyAck)
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
	if most.Load() > 3 || taken == 0 {
		t.Errorf("%d at once, want at most 3 (%d taken, %d refused)", most.Load(), taken, refused)
	}
}

func TestAssignedTwice(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	b := start(t, basic(s.URL), node.Quick{})
	p, _ := s.registered(anyAck)
	key := p.assign("j-1")
	p.assign("j-1") // confirmed again
	b.next().done("hola")
	first := expect[wire.JobResult](p)
	p.assign("j-1") // it has its result: confirmed, and sent again
	if diff := cmp.Diff(first, expect[wire.JobResult](p)); diff != "" {
		t.Errorf("sent again (-first +second):\n%s", diff)
	}
	p.acknowledge(key)
	p.assign("j-2")
	if got := b.next(); got.ID != "j-2" {
		t.Errorf("%s was done a second time", got.ID)
	}
}
