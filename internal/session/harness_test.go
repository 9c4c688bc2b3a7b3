package session_test

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is an instance's sessions, with a dispatcher that the test controls.
type harness struct {
	t          *testing.T
	registry   *session.Registry
	dispatcher *fakeDispatcher
	store      store.Store
	cfg        session.Config
	buses      map[core.InstanceID]*bus.Bus // nil: the instances do not send messages

	instances int                // started so far
	metrics   *telemetry.Metrics // of the instances that are started from now on
	log       *slog.Logger       // the same; nil: nothing is logged
}

// replaceInstance ends the instance and starts another one in its place.
func (h *harness) replaceInstance() {
	h.registry.Close()
	h.registry = h.newRegistry(h.store, h.dispatcher)
	h.dispatcher.registry = h.registry
}

// newRegistry starts one more instance.
func (h *harness) newRegistry(st session.Store, jobs session.Jobs) *session.Registry {
	h.instances++
	cfg := h.cfg
	cfg.Instance = core.InstanceID(fmt.Sprintf("i-%d", h.instances))
	log := h.log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return session.NewRegistry(session.NewDirectory(cfg, st, h.newBus(cfg.Instance), audio.NewBuffer(4<<20), &h.metrics.Sessions, log), jobs)
}

// newBus makes the bus of an instance; nil if the instances of the harness do not send messages.
func (h *harness) newBus(id core.InstanceID) *bus.Bus {
	if h.buses == nil {
		return nil
	}
	h.buses[id] = bus.New(bus.Config{
		Instance: id, TTL: 3 * time.Second, Block: time.Second, Keep: time.Hour, About: func() bus.About { return bus.About{} },
	}, h.store, telemetry.New(), slog.New(slog.DiscardHandler))
	return h.buses[id]
}

// restartWith restarts the instance with another store or dispatcher.
func (h *harness) restartWith(st session.Store, jobs session.Jobs) {
	h.registry.Close()
	h.registry = h.newRegistry(st, jobs)
	h.dispatcher.registry = h.registry
}

// run runs a test with a harness of its own, on a fake clock.
func run(t *testing.T, fn func(h *harness)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(store.Timing{
			Presence: 15 * time.Second, ReservedTTL: 5 * time.Second, Attempt: 15 * time.Second, Job: 30 * time.Second, Retention: time.Minute,
		})
		h := newHarness(t, st)
		defer func() { h.registry.Close() }()
		fn(h)
	})
}

// newHarness makes one instance over a store.
func newHarness(t *testing.T, st store.Store) *harness {
	h := &harness{t: t, store: st, metrics: telemetry.New(), cfg: session.Config{
		Pause: time.Second, MaxUtterance: 10 * time.Second, Silence: 0.01, Ahead: 5 * time.Second, Resume: time.Minute,
		Idle: 5 * time.Minute, Wait: 10 * time.Second, Job: 30 * time.Second, MaxUnanswered: 4, UtteranceRate: 5, MaxUtteranceBytes: 1 << 20, OutboxBytes: 1 << 20,
	}}
	h.dispatcher = &fakeDispatcher{placed: make(map[core.JobID]core.Spec)}
	h.registry = h.newRegistry(st, h.dispatcher)
	h.dispatcher.registry = h.registry
	return h
}

// endedJob is a job that has ended.
func endedJob(id core.JobID, spec core.Spec, state core.State, reason core.Reason, result string) *core.Job {
	now := time.Now()
	j := &core.Job{
		ID: id, Spec: spec, State: state, Reason: reason, Holder: core.Holder{Attempt: 1, Node: "n1", Epoch: 1},
		Created: now.Add(-time.Second), Updated: now, Result: []byte(result),
	}
	j.BeginAttempt(now.Add(-time.Second))
	return j
}

// complete ends a job with a result.
func (h *harness) complete(id core.JobID, text string) {
	h.t.Helper()
	h.dispatcher.mu.Lock()
	spec := h.dispatcher.placed[id]
	h.dispatcher.mu.Unlock()
	if err := h.registry.JobEnded(h.t.Context(), endedJob(id, spec, core.StateDone, "", fmt.Sprintf(`{"text_tgt":%q}`, text)), time.Now()); err != nil {
		h.t.Fatal(err)
	}
}

// completeOn ends a job that was retried with the result of another node.
func (h *harness) completeOn(node core.NodeID, id core.JobID) {
	h.t.Helper()
	h.dispatcher.mu.Lock()
	spec := h.dispatcher.placed[id]
	h.dispatcher.mu.Unlock()
	job := endedJob(id, spec, core.StateDone, "", `{"text_tgt":"retried"}`)
	job.Attempt, job.Node = 2, node
	if err := h.registry.JobEnded(h.t.Context(), job, time.Now()); err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
}

// failJob ends a job without a result.
func (h *harness) failJob(id core.JobID, reason core.Reason) {
	h.t.Helper()
	h.dispatcher.mu.Lock()
	spec := h.dispatcher.placed[id]
	h.dispatcher.mu.Unlock()
	if err := h.registry.JobEnded(h.t.Context(), endedJob(id, spec, core.StateFailed, reason, ""), time.Now()); err != nil {
		h.t.Fatal(err)
	}
}

// start starts a session.
func (h *harness) start(change ...func(*wire.SessionStart)) (*session.Connection, *fakeConn) {
	h.t.Helper()
	request := &wire.SessionStart{}
	for _, c := range change {
		c(request)
	}
	conn := &fakeConn{}
	s, err := h.registry.Start(h.t.Context(), session.StartParams{Langs: [2]core.Lang{"en", "es"}, Request: request}, conn)
	if err != nil {
		h.t.Fatal(err)
	}
	conn.setConnection(s)
	return s, conn
}

// longTone is a tone at 16 kHz, as long as any that a test needs.
var longTone = sync.OnceValue(func() []byte {
	pcm := make([]byte, 32*12_000)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
})

// tone returns so many milliseconds of a tone at 16 kHz. It is not to be changed.
func tone(ms int) []byte { return longTone()[: 32*ms : 32*ms] }

// silence returns so many milliseconds of silence at 16 kHz.
func silence(ms int) []byte { return make([]byte, 32*ms) }

// stream sends audio as a microphone does, in frames of 100 ms, in real time.
func (h *harness) stream(s *session.Connection, pcm []byte) {
	h.t.Helper()
	for len(pcm) > 0 {
		n := min(len(pcm), 3200)
		if e := s.Audio(session.AudioFrame{Data: pcm[:n]}); e != nil {
			h.t.Fatal(e)
		}
		pcm = pcm[n:]
		time.Sleep(100 * time.Millisecond)
	}
}

// sendPaced sends one frame of audio and waits for as long as it lasts.
func (h *harness) sendPaced(s *session.Connection, pcm []byte, ms int) {
	h.t.Helper()
	if e := s.Audio(session.AudioFrame{Data: pcm}); e != nil {
		h.t.Fatal(e)
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
}

// commit streams an utterance, ends it manually, and returns its job.
func (h *harness) commit(s *session.Connection) core.JobID {
	h.t.Helper()
	before := len(h.dispatcher.jobs())
	h.stream(s, tone(300))
	if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
		h.t.Fatal(e)
	}
	synctest.Wait()
	jobs := h.dispatcher.jobs()
	if len(jobs) != before+1 {
		h.t.Fatalf("%d jobs after another utterance, want %d", len(jobs), before+1)
	}
	return jobs[before]
}

// namedOptions makes options of about so many bytes.
func namedOptions(bytes int) core.Options {
	var o core.Options
	for i := range bytes / 100 {
		o.RequiredServices = append(o.RequiredServices, fmt.Sprintf("%096d", i))
	}
	return o
}

// stateSize is how many bytes the saved state of a session has.
func (h *harness) stateSize(s *session.Connection) int {
	h.t.Helper()
	st, err := h.store.LoadSession(h.t.Context(), s.Ref().SessionKey)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(st.Body)
}

// outboxSize is how many durable messages the store keeps of a session, and how many bytes they have.
func (h *harness) outboxSize(s *session.Connection) (n, bytes int) {
	h.t.Helper()
	list, err := h.store.Read(h.t.Context(), store.ReadParams{Session: s.Ref()})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range list {
		bytes += len(m.Body)
	}
	return len(list), bytes
}

// jobID is the job that a message names.
func (h *harness) jobID(m map[string]any) core.JobID { return core.JobID(m["job_id"].(string)) }

// commitRequest streams an utterance with a request id that other sessions use too, and ends it manually.
func (h *harness) commitRequest(s *session.Connection, pcm []byte) {
	h.t.Helper()
	if e := s.Begin("", "", "r1"); e != nil {
		h.t.Fatal(e)
	}
	h.stream(s, pcm)
	if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
		h.t.Fatal(e)
	}
	synctest.Wait()
}

// resumedJobs is how often a job was resumed with its audio.
func (h *harness) resumedJobs() int {
	h.dispatcher.mu.Lock()
	defer h.dispatcher.mu.Unlock()
	return len(h.dispatcher.resumed)
}

// startNamed starts a session with a name that the client chooses.
func (h *harness) startNamed(tenant core.TenantID, name core.SessionID) (*session.Connection, *fakeConn) {
	h.t.Helper()
	conn := &fakeConn{}
	p := session.StartParams{ID: name, Tenant: tenant, Langs: [2]core.Lang{"en", "es"}, Request: &wire.SessionStart{}}
	s, err := h.registry.Start(h.t.Context(), p, conn)
	if err != nil {
		h.t.Fatal(err)
	}
	conn.setConnection(s)
	return s, conn
}

// startAndCrash starts a session with two utterances, whose jobs are not done, and lets the instance die.
func startAndCrash(h *harness) (s *session.Connection, token string) {
	s, conn := h.start()
	h.commit(s) // frames 1 to 3, and 4 that ends it
	h.commit(s) // 5 to 7, 8
	h.stream(s, tone(200))
	h.dispatcher.forgetJobs() // the records are lost too: only the client has the audio
	h.replaceInstance()
	return s, conn.resumeToken(h.t)
}

func lang(tag string) core.Lang { return core.Lang(tag) }

// wantTerminals checks the terminal messages that a connection received.
func wantTerminals(t *testing.T, conn *fakeConn, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, conn.terminals()); diff != "" {
		t.Errorf("terminal messages (-want +got):\n%s", diff)
	}
}

// resume resumes a session over a new connection.
func (h *harness) resume(s *session.Connection, token string, last int64) (*session.Connection, *fakeConn, error) {
	conn := &fakeConn{}
	resumed, err := h.registry.Resume(h.t.Context(), session.ResumeParams{Session: s.ID(), Token: token, Last: last}, conn)
	conn.setConnection(resumed)
	return resumed, conn, err
}

// committedReasons returns the reasons of the utterances that were committed.
func committedReasons(conn *fakeConn) []string {
	var list []string
	for _, m := range conn.received("utterance_committed") {
		list = append(list, m["reason"].(string))
	}
	return list
}

// wantCommitted checks the reasons of the utterances that were committed.
func wantCommitted(t *testing.T, conn *fakeConn, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, committedReasons(conn)); diff != "" {
		t.Errorf("committed (-want +got):\n%s", diff)
	}
}

// send sends one frame of audio.
func (h *harness) send(s *session.Connection, frame session.AudioFrame) {
	h.t.Helper()
	if e := s.Audio(frame); e != nil {
		h.t.Fatal(e)
	}
}

// committedParts describes the utterances that were committed: index, name, request, reason, and the index that they continue.
func committedParts(conn *fakeConn) []string {
	var list []string
	for _, m := range conn.received("utterance_committed") {
		text := fmt.Sprint(m["utterance_index"], " ", m["utterance_id"], " ", m["request_id"], " ", m["reason"])
		if of, ok := m["continues"]; ok {
			text += fmt.Sprint(" of ", of)
		}
		list = append(list, text)
	}
	return list
}

// completeAttempt ends a job with the result of an attempt.
func (h *harness) completeAttempt(job core.JobID, attempt int, result string) {
	h.dispatcher.mu.Lock()
	spec := h.dispatcher.placed[job]
	h.dispatcher.mu.Unlock()
	j := endedJob(job, spec, core.StateDone, "", result)
	j.Attempt = attempt
	if err := h.registry.JobEnded(h.t.Context(), j, time.Now()); err != nil {
		h.t.Fatal(err)
	}
}
