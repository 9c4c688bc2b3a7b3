package node_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// spoken waits for a result and all of its speech.
func (p *peer) spoken() (bytes int) {
	p.t.Helper()
	if r := expect[wire.JobResult](p); !r.TTS {
		return 0
	}
	for {
		m, ok := p.next()
		if !ok || m.typ != "" {
			p.t.Fatalf("the node sent %q, want speech", m.typ)
		}
		if bytes += len(m.data); m.header.Last {
			return bytes
		}
	}
}

// TestUnacknowledged: outcomes that nobody acknowledges are kept up to a bound. Then no further job is taken, until some are.
func TestUnacknowledged(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	speech := make([]byte, 1<<20)
	serve(t, basic(s.URL), node.Quick{Kept: 2 << 20}, returning(node.Result{Speech: speech}))
	p, _ := s.registered(anyAck)
	var keys []wire.ActiveJob
	for _, id := range []string{"j-1", "j-2"} {
		keys = append(keys, p.assign(id))
		if got := p.spoken(); got != len(speech) {
			t.Fatalf("%d bytes of speech, want %d", got, len(speech))
		}
	}
	p.send(wire.JobAssign{JobID: "j-3", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.Reason != "NODE_BUSY" {
		t.Errorf("refused with %q", got.Reason)
	}
	p.cut() // which changes nothing about it
	p, _ = s.registered(anyAck)
	for last := 0; last < 2; {
		if m, _ := p.next(); m.header.Last {
			last++
		}
	}
	p.send(wire.JobAssign{JobID: "j-3", AttemptID: 1})
	expect[wire.JobReject](p)
	p.acknowledge(keys[0])
	p.assign("j-4")
}

// TestAudioIsLetGo: what was said is not kept until the result of it is acknowledged.
func TestAudioIsLetGo(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	jobs := make(chan weak.Pointer[node.Job], 1)
	serve(t, basic(s.URL), node.Quick{}, func(_ context.Context, job *node.Job) (node.Result, error) {
		jobs <- weak.Make(job)
		return node.Result{}, nil
	})
	p, _ := s.registered(anyAck)
	p.assign("j-1")
	expect[wire.JobResult](p)
	job := receive(t, jobs, "a job")
	for until := time.Now().Add(patience); job.Value() != nil; runtime.GC() {
		if time.Now().After(until) {
			t.Fatal("it is kept")
		}
	}
}

// TestLongestSpeech: speech beyond all bounds is left out; the text is not.
func TestLongestSpeech(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	serve(t, basic(s.URL), node.Quick{}, returning(node.Result{TextTgt: "hola", Speech: make([]byte, 64<<20+1)}))
	p, _ := s.registered(anyAck)
	p.assign("j-1")
	if got := expect[wire.JobResult](p); got.TTS {
		t.Error("it is said that speech follows")
	}
}

// TestLongestList: the list of what is in hand always fits into one message, beside a long declaration: a longer one would
// end the node.
func TestLongestList(t *testing.T) {
	t.Parallel()
	s := newScheduler(t)
	cfg := basic(s.URL)
	cfg.Slots = 10000
	cfg.Declaration.Features = []string{strings.Repeat("x", 60<<10)}
	serve(t, cfg, node.Quick{}, func(ctx context.Context, _ *node.Job) (node.Result, error) {
		<-ctx.Done()
		return node.Result{}, ctx.Err()
	})
	p, _ := s.registered(anyAck)
	taken := 0
	for ; ; taken++ {
		p.send(wire.JobAssign{JobID: fmt.Sprintf("%0128d", taken), AttemptID: 1 << 30})
		if m, _ := p.next(); m.typ == (wire.JobReject{}).Type() {
			break
		}
	}
	if taken < 1000 {
		t.Errorf("only %d were taken", taken)
	}
	p.cut()
	_, r := s.registered(anyAck) // who reads no more than a message may have
	if len(r.Active) != taken {
		t.Errorf("%d are listed, want %d", len(r.Active), taken)
	}
}
