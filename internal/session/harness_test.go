package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an instance's conversations, with a dispatcher that does as the test says.
type world struct {
	buses map[core.InstanceID]*bus.Bus // nil: its instances do not send messages
	t     *testing.T
	rooms *session.Registry
	jobs  *desk
	store store.Store
	cfg   session.Config

	instances int // that there were
}

// move lets the instance die, and has another one in its place from now on.
func (w *world) move() {
	w.rooms.Close()
	w.rooms = w.another(w.store, w.jobs)
	w.jobs.rooms = w.rooms
}

// another is one more instance.
func (w *world) another(st session.Store, jobs session.Jobs) *session.Registry {
	w.instances++
	cfg := w.cfg
	cfg.Instance = core.InstanceID(fmt.Sprintf("i-%d", w.instances))
	return session.NewRegistry(session.NewDirectory(cfg, st, w.bus(cfg.Instance), audio.NewBuffer(4<<20), &telemetry.New().Sessions, slog.New(slog.DiscardHandler)), jobs)
}

// bus is the bus of an instance; nil if the world's instances do not send messages.
func (w *world) bus(id core.InstanceID) *bus.Bus {
	if w.buses == nil {
		return nil
	}
	w.buses[id] = bus.New(bus.Config{
		Instance: id, TTL: 3 * time.Second, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} },
	}, w.store, telemetry.New(), slog.New(slog.DiscardHandler))
	return w.buses[id]
}

// over has the instance use another store, or another dispatcher, from now on.
func (w *world) over(st session.Store, jobs session.Jobs) {
	w.rooms.Close()
	w.rooms = w.another(st, jobs)
	w.jobs.rooms = w.rooms
}

// play runs a test in a world of its own, on a clock that costs nothing to turn.
func play(t *testing.T, fn func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(store.Timing{
			Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute,
		})
		w := newWorld(t, st)
		defer func() { w.rooms.Close() }()
		fn(w)
	})
}

// newWorld is one instance over a store.
func newWorld(t *testing.T, st store.Store) *world {
	w := &world{t: t, store: st, cfg: session.Config{
		Pause: time.Second, MaxUtterance: 10 * time.Second, Silence: 0.01, Ahead: 5 * time.Second, Resume: time.Minute,
		Idle: 5 * time.Minute, Wait: 10 * time.Second, Job: 30 * time.Second, MaxUnanswered: 4, MaxUtteranceBytes: 1 << 20, OutboxBytes: 1 << 20,
	}}
	w.jobs = &desk{placed: make(map[core.JobID]core.Spec)}
	w.rooms = w.another(st, w.jobs)
	w.jobs.rooms = w.rooms
	return w
}

// desk is a dispatcher: it takes jobs and ends them when it is told.
type desk struct {
	rooms *session.Registry

	mu     sync.Mutex
	order  []core.JobID
	placed map[core.JobID]core.Spec
	refuse *wire.Error
	asked  int

	rearmed []core.JobID
}

func (d *desk) DispatchWaiting(ctx context.Context, r dispatch.Request, w dispatch.Wait) (dispatch.Placement, error) {
	for {
		p, err := d.dispatch(r, w)
		if err == nil || !err.Code.Traits().Retryable || !time.Now().Before(w.Until) {
			if err != nil {
				return p, err
			}
			return p, nil
		}
		select {
		case <-ctx.Done():
			return p, wire.Errorf(wire.DeadlineExceeded, "the request ended")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (d *desk) dispatch(r dispatch.Request, w dispatch.Wait) (dispatch.Placement, *wire.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if d.refuse != nil {
		return dispatch.Placement{}, d.refuse
	}
	r.Utterance.WaitMS = time.Since(w.Since).Milliseconds()
	id := r.Job()
	if _, again := d.placed[id]; !again {
		d.order = append(d.order, id)
	}
	d.placed[id] = r.Spec
	return dispatch.Placement{Job: id, Node: "n1", Attempt: 1}, nil
}

func (d *desk) Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error) {
	d.mu.Lock()
	spec, ok := d.placed[id]
	d.mu.Unlock()
	if !ok {
		return nil, false, wire.Errorf(wire.NotFound, "no such job")
	}
	job := ended(id, spec, core.StateCancelled, core.ReasonCancelled, "")
	return job, true, d.rooms.JobEnded(ctx, job)
}

func (d *desk) ResumeWithAudio(_ context.Context, id core.JobID) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.placed[id]
	if known {
		d.rearmed = append(d.rearmed, id)
	}
	return known, nil
}

func (d *desk) Abandon(ctx context.Context, id core.JobID, reason core.Reason) (bool, error) {
	d.mu.Lock()
	spec, ok := d.placed[id]
	d.mu.Unlock()
	if !ok {
		return false, nil
	}
	return true, d.rooms.JobEnded(ctx, ended(id, spec, core.StateFailed, reason, ""))
}

// reset has the dispatcher know nothing of the jobs it was given.
func (d *desk) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order, d.placed = nil, make(map[core.JobID]core.Spec)
}

func (d *desk) EndedElsewhere(core.JobID) {}

func (d *desk) jobs() []core.JobID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}

func ended(id core.JobID, spec core.Spec, state core.State, reason core.Reason, result string) *core.Job {
	now := time.Now()
	j := &core.Job{
		ID: id, Spec: spec, State: state, Reason: reason, Holder: core.Holder{Attempt: 1, Node: "n1", Epoch: 1},
		Created: now.Add(-time.Second), Updated: now, Result: []byte(result),
	}
	j.BeginAttempt(now.Add(-time.Second))
	return j
}

// done ends a job well.
func (w *world) done(id core.JobID, text string) {
	w.t.Helper()
	w.jobs.mu.Lock()
	spec := w.jobs.placed[id]
	w.jobs.mu.Unlock()
	if err := w.rooms.JobEnded(w.t.Context(), ended(id, spec, core.StateDone, "", fmt.Sprintf(`{"text_tgt":%q}`, text))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fail(id core.JobID, reason core.Reason) {
	w.t.Helper()
	w.jobs.mu.Lock()
	spec := w.jobs.placed[id]
	w.jobs.mu.Unlock()
	if err := w.rooms.JobEnded(w.t.Context(), ended(id, spec, core.StateFailed, reason, "")); err != nil {
		w.t.Fatal(err)
	}
}

// ear is a link that remembers what it was sent.
type ear struct {
	mu     sync.Mutex
	frames []map[string]any
	code   wire.CloseCode
	err    *wire.Error
	slow   bool // it takes no speech

	seat    *session.Connection // answers pings, if it is known
	stalled bool                // pings are not answered
	pings   int
}

func (e *ear) Ping(payload []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pings++
	if e.seat != nil && !e.stalled {
		go e.seat.Pong(slices.Clone(payload))
	}
	return e.code == 0
}

// sits says which seat the link is of.
func (e *ear) sits(s *session.Connection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seat = s
}

// stall has pings answered no more, or again.
func (e *ear) stall(stalled bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stalled = stalled
}

func (e *ear) Send(f wire.Frame) bool {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		panic(err)
	}
	return e.SendText(text)
}

func (e *ear) SendText(text []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code != 0 {
		return false
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		panic(err)
	}
	e.frames = append(e.frames, m)
	return true
}

func (e *ear) Feed(next func() []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.slow {
		frame := next()
		if frame == nil {
			break
		}
		e.frames = append(e.frames, map[string]any{"type": "binary", "data": frame})
	}
	return e.code == 0
}

func (e *ear) Close(code wire.CloseCode, err *wire.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code == 0 {
		e.code, e.err = code, err
	}
}

func (e *ear) SendFinal(f wire.Frame) {
	e.Send(f)
	e.Close(wire.CloseNormal, nil)
}

// closed is how the link was closed, 0 if it was not.
func (e *ear) closed() (wire.CloseCode, *wire.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.code, e.err
}

// heard lists what came of a type, or of several.
func (e *ear) heard(types ...string) []map[string]any {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []map[string]any
	for _, m := range e.frames {
		if slices.Contains(types, m["type"].(string)) {
			list = append(list, m)
		}
	}
	return list
}

// last is the last message of a type.
func (e *ear) last(t *testing.T, typ string) map[string]any {
	t.Helper()
	list := e.heard(typ)
	if len(list) == 0 {
		t.Fatalf("no %s was heard: %v", typ, e.frames)
	}
	return list[len(list)-1]
}

// ends writes the terminal messages: "0 hola", "1 CANCELLED".
func (e *ear) ends() []string {
	var list []string
	for _, m := range e.heard("result", "error") {
		index, terminal := m["utterance_index"]
		if !terminal {
			continue
		}
		what := m["text_tgt"]
		if m["type"] == "error" {
			what = m["error"]
		}
		list = append(list, fmt.Sprint(index, " ", what))
	}
	return list
}

// start begins a session.
func (w *world) start(change ...func(*wire.SessionStart)) (*session.Connection, *ear) {
	w.t.Helper()
	wish := &wire.SessionStart{}
	for _, c := range change {
		c(wish)
	}
	link := &ear{}
	s, err := w.rooms.Start(w.t.Context(), session.StartParams{Langs: [2]core.Lang{"en", "es"}, Request: wish}, link)
	if err != nil {
		w.t.Fatal(err)
	}
	link.sits(s)
	return s, link
}

// tone is so many milliseconds of sound, hush of silence, at 16 kHz.
func tone(ms int) []byte {
	pcm := make([]byte, 32*ms)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}

func hush(ms int) []byte { return make([]byte, 32*ms) }

// say sends audio as a microphone does, in pieces of 100 ms, in real time.
func (w *world) say(s *session.Connection, pcm []byte) {
	w.t.Helper()
	for len(pcm) > 0 {
		n := min(len(pcm), 3200)
		if e := s.Audio(session.AudioFrame{Data: pcm[:n]}); e != nil {
			w.t.Fatal(e)
		}
		pcm = pcm[n:]
		time.Sleep(100 * time.Millisecond)
	}
}

// hearInTime sends one frame of audio and waits for as long as it lasts.
func (w *world) hearInTime(s *session.Connection, pcm []byte, ms int) {
	w.t.Helper()
	if e := s.Audio(session.AudioFrame{Data: pcm}); e != nil {
		w.t.Fatal(e)
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
}

// utter says something and ends it by hand, and returns its job.
func (w *world) utter(s *session.Connection) core.JobID {
	w.t.Helper()
	before := len(w.jobs.jobs())
	w.say(s, tone(300))
	if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
		w.t.Fatal(e)
	}
	synctest.Wait()
	jobs := w.jobs.jobs()
	if len(jobs) != before+1 {
		w.t.Fatalf("%d jobs after another utterance, want %d", len(jobs), before+1)
	}
	return jobs[before]
}
