package nodeconn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// assignment is an assignment to node n in epoch 2.
func assignment(audioRef string) *wire.Assignment {
	return &wire.Assignment{
		JobID: "j", AttemptID: 1, NodeID: "n", Epoch: 2, SessionID: "s", SrcLang: "en", TgtLang: "zh", TimeoutMS: 15_000, AudioRef: audioRef,
	}
}

// node is the node of assignment, connected to an instance.
func node(owner core.InstanceID) *core.Node {
	return &core.Node{ID: "n", Epoch: 2, Declaration: core.Declaration{Owner: owner}}
}

var clip = &audio.Clip{
	Format: wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1}, Data: []byte{1, 2, 3, 4}, DurationMS: 7, Partials: true, Speech: true,
}

// TestDeliverPastAHalfOpenConnection: the node has connected to i-b, and its connection to this instance is half open. Jobs are
// delivered through i-b before the pings notice.
func TestDeliverPastAHalfOpenConnection(t *testing.T) {
	t.Parallel()
	st := newStore()
	a := startInstance(t, st, "i-a", "i-b", false)
	startInstance(t, st, "i-b", "i-b", false)
	a.add(&conn{id: "n", epoch: 1}) // the connection of its earlier epoch
	if err := a.Deliver(t.Context(), node("i-b"), assignment("")); err != nil {
		t.Errorf("not delivered through i-b, the owner of the node: %v", err)
	}
}

// TestDeliverThroughOwner: a job for a node on another instance reaches it through that instance, with URLs for its audio and its
// speech on this one.
func TestDeliverThroughOwner(t *testing.T) {
	t.Parallel()
	st := newStore()
	a, b := startInstance(t, st, "i-a", "i-b", true), startInstance(t, st, "i-b", "i-b", true)
	n := b.connectNode(t, "n", 2)
	a.Audio.Put("j", clip)
	if err := a.Deliver(t.Context(), node("i-b"), assignment(audio.RefPrefix+"j")); err != nil {
		t.Fatal(err)
	}
	var got wire.JobAssign
	n.read(&got)
	for what, url := range map[string]string{"audio": got.Audio.URL, "speech": got.TTSUpload} {
		if !strings.HasPrefix(url, "http://i-a/v1/audio/j") {
			t.Errorf("the URL of the %s is %q", what, url)
		}
	}
	got.Audio.URL, got.TTSUpload = "", ""
	want := wire.JobAssign{
		JobID: "j", AttemptID: 1, SessionID: "s", SrcLang: "en", TgtLang: "zh", TimeoutMS: 15_000, Partials: true,
		Audio: &wire.Audio{AudioFormat: clip.Format, Bytes: 4, DurationMS: 7},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if to := b.get("n").partialReceiver(wire.ActiveJob{JobID: "j", AttemptID: 1}); to != "i-a" {
		t.Errorf("partial results go to %q, want i-a", to)
	}
}

// TestUndeliveredJobIsReturned: an instance that does not have the node, or has it in another epoch, notifies the sender, which gives
// the job to another node.
func TestUndeliveredJobIsReturned(t *testing.T) {
	t.Parallel()
	for name, connected := range map[string]core.Epoch{"not connected": 0, "another epoch": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStore()
			a, b := startInstance(t, st, "i-a", "i-b", true), startInstance(t, st, "i-b", "i-b", true)
			if connected != 0 {
				b.connectNode(t, "n", connected)
			}
			if err := a.Deliver(t.Context(), node("i-b"), assignment("")); err != nil {
				t.Fatal(err)
			}
			want := dispatch.Report{Job: "j", Holder: core.Holder{Attempt: 1, Node: "n", Epoch: 2}}
			if got := receive(t, a.returned); got != want {
				t.Errorf("returned %+v, want %+v", got, want)
			}
		})
	}
}

// TestDeliverWithoutRoute: a delivery that certainly did not happen is ErrRefused, so that another node is tried at once.
func TestDeliverWithoutRoute(t *testing.T) {
	t.Parallel()
	a := startInstance(t, newStore(), "i-a", "", false)
	a.add(&conn{id: "old", epoch: 1})
	for name, to := range map[string]*core.Node{
		"no owner": node(""), "a lost connection": node("i-a"), "an absent owner": node("i-gone"), "an earlier epoch": {ID: "old", Epoch: 2, Declaration: core.Declaration{Owner: "i-a"}},
	} {
		if err := a.Deliver(t.Context(), to, assignment("")); !errors.Is(err, dispatch.ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
	if err := a.Deliver(t.Context(), node("i-b"), assignment(audio.RefPrefix+"j")); !errors.Is(err, dispatch.ErrNoAudio) {
		t.Errorf("without the audio: %v, want ErrNoAudio", err)
	}
}

// TestDeliverToCallbackURL: a node with a callback URL gets a URL for the audio of a session; another audio_ref is passed on.
func TestDeliverToCallbackURL(t *testing.T) {
	t.Parallel()
	a := startInstance(t, newStore(), "i-a", "", false)
	a.Audio.Put("j", clip)
	to := node("")
	to.Callback = "http://node"
	for ref, want := range map[string]string{audio.RefPrefix + "j": "http://i-a/v1/audio/j?token=", "blob://1": "blob://1"} {
		if err := a.Deliver(t.Context(), to, assignment(ref)); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, a.callbacks.delivered); !strings.HasPrefix(got.AudioRef, want) {
			t.Errorf("the audio_ref is %q, want %q", got.AudioRef, want)
		}
	}
	a.Cancel(t.Context(), "n", "j", 1)
	if job := receive(t, a.callbacks.cancelled); job != "j" {
		t.Errorf("cancelled %s", job)
	}
}

// TestCancelThroughOwner: cancellations reach a node on another instance.
func TestCancelThroughOwner(t *testing.T) {
	t.Parallel()
	st := newStore()
	a, b := startInstance(t, st, "i-a", "i-b", true), startInstance(t, st, "i-b", "i-b", true)
	n := b.connectNode(t, "n", 2)
	var cancel wire.JobCancel
	a.Cancel(t.Context(), "n", "j", 1)
	if n.read(&cancel); cancel.ActiveJob != (wire.ActiveJob{JobID: "j", AttemptID: 1}) {
		t.Errorf("cancel %+v", cancel)
	}
}

// TestTakeOverOfAssignments: a job that a dead instance never fetched is returned to its sender. One that it fetched may be on the
// node, and is left to the ACK timeout.
func TestTakeOverOfAssignments(t *testing.T) {
	t.Parallel()
	st := newStore()
	a, c := startInstance(t, st, "i-a", "i-b", true), startInstance(t, st, "i-c", "i-b", false)
	for _, fetched := range []string{"fetched", "never-fetched"} {
		m := &bus.Message{From: "i-a", Kind: kindAssign, Body: []byte(`{"node":"n","epoch":2,"assign":{"job_id":"` + fetched + `","attempt_id":1}}`)}
		if err := c.takeOverAssign(t.Context(), m, fetched == "never-fetched"); err != nil {
			t.Fatal(err)
		}
	}
	if got := receive(t, a.returned); got.Job != "never-fetched" || len(a.returned) != 0 {
		t.Errorf("returned %+v and %d more", got, len(a.returned))
	}
}

// TestUndeliveredJobThatMoved: an error of the dispatcher is retried only if the store caused it.
func TestUndeliveredJobThatMoved(t *testing.T) {
	t.Parallel()
	for code, retried := range map[wire.Code]bool{
		wire.StaleAttempt: false, wire.NotFound: false, wire.SchedulerDependencyDown: true, wire.DeadlineExceeded: true,
	} {
		handle := handleUndelivered(failer{wire.Errorf(code, "no")})
		if err := handle(t.Context(), &bus.Message{Kind: kindUndelivered, Body: []byte("{}")}); (err != nil) != retried {
			t.Errorf("%s: %v, want a retry: %v", code, err, retried)
		}
	}
}

// failer is a dispatcher whose Fail returns an error.
type failer struct{ err error }

// Fail implements Failer.
func (f failer) Fail(context.Context, dispatch.Report, core.Reason, string) error { return f.err }

// TestPartialResultsAreLimited: partial results go to another instance only for sessions that want them. Those of a job are not passed on too
// often, wherever its session is.
func TestPartialResultsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n conn
		with, without := wire.ActiveJob{JobID: "with", AttemptID: 1}, wire.ActiveJob{JobID: "without", AttemptID: 1}
		n.addRemoteJob(with, "i-b", true)
		n.addRemoteJob(without, "i-b", false)
		if a, b := n.partialReceiver(with), n.partialReceiver(without); a != "i-b" || b != "" {
			t.Errorf("partial results go to %q, and of a session that wants none to %q", a, b)
		}
		for _, job := range []wire.ActiveJob{with, without} {
			n.recordSent(&wire.JobAssign{JobID: job.JobID, AttemptID: job.AttemptID})
		}
		earlier := wire.ActiveJob{JobID: "of an earlier connection", AttemptID: 1}
		for at, want := range []int{partialBurst, 1, 2} {
			for _, job := range []wire.ActiveJob{with, without, earlier} {
				admitted := 0
				for range 2 * partialBurst {
					if n.admitPartial(job) {
						admitted++
					}
				}
				if admitted != want {
					t.Errorf("of %d at once of job %s %d are passed on, want %d", 2*partialBurst, job.JobID, admitted, want)
				}
			}
			time.Sleep(time.Duration(at+1) * partialInterval)
		}
		n.recordEnd(with)
		if to := n.partialReceiver(with); to != "" {
			t.Errorf("after the end of the job: %q", to)
		}
	})
}

// TestRemoteJobsAreBounded: jobs whose end was never reported are dropped when there are many.
func TestRemoteJobsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n conn
		for i := range maxRemoteJobs {
			n.addRemoteJob(wire.ActiveJob{JobID: "old", AttemptID: i + 1}, "i-b", true)
		}
		time.Sleep(remoteJobTTL + time.Second)
		n.addRemoteJob(wire.ActiveJob{JobID: "new", AttemptID: 1}, "i-b", true)
		if len(n.remoteJobs) != 1 {
			t.Errorf("%d jobs are kept", len(n.remoteJobs))
		}
	})
}

// TestLateDeliveryIsRefused: a delivery whose time is over does not reach the node's connection, and counts as not sent.
func TestLateDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	c := NewConns(Options{})
	c.add(&conn{id: "n", epoch: 2}) // without a WebSocket: sending over it would panic
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Millisecond))
	defer cancel()
	if err := c.Deliver(ctx, &core.Node{ID: "n", Epoch: 2}, assignment("")); !errors.Is(err, dispatch.ErrRefused) {
		t.Errorf("%v, want refused", err)
	}
}

// TestLateAssignmentIsReturned: the assignment of another instance is not delivered after its message has expired; the sender
// is notified.
func TestLateAssignmentIsReturned(t *testing.T) {
	t.Parallel()
	st := newStore()
	a, b := startInstance(t, st, "i-a", "", false), startInstance(t, st, "i-b", "", true)
	a.add(&conn{id: "n", epoch: 1}) // without a WebSocket: sending over it would panic
	late := expiredContext{t.Context(), time.Now().Add(-time.Millisecond)}
	in := assignMessage{Node: "n", Epoch: 1, Assign: wire.JobAssign{JobID: "j", AttemptID: 1}}
	if err := a.handleAssign(late, &bus.Message{From: "i-b"}, &in); err != nil {
		t.Fatal(err)
	}
	want := dispatch.Report{Job: "j", Holder: core.Holder{Attempt: 1, Node: "n", Epoch: 1}}
	if got := receive(t, b.returned); got != want {
		t.Errorf("returned %+v, want %+v", got, want)
	}
}

// expiredContext is past its deadline while its timer has not fired, as in a process that was stopped.
type expiredContext struct {
	context.Context
	deadline time.Time
}

func (c expiredContext) Deadline() (time.Time, bool) { return c.deadline, true }
