package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// fakeDispatcher accepts jobs, and ends them when the test says so.
type fakeDispatcher struct {
	registry *session.Registry

	mu      sync.Mutex
	order   []core.JobID
	before  map[core.JobID]dispatch.PreviousJob // the job before each job, as its request named it
	placed  map[core.JobID]core.Spec
	refusal *wire.Error
	calls   int

	resumed   []core.JobID
	cancelled []core.JobID
}

func (d *fakeDispatcher) Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error) {
	for {
		p, err := d.dispatch(r, *r.Wait)
		if err == nil || !err.Code.Retryable() || !time.Now().Before(r.Wait.Until) {
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

func (d *fakeDispatcher) dispatch(r dispatch.Request, w dispatch.Wait) (dispatch.Placement, *wire.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.refusal != nil {
		return dispatch.Placement{}, d.refusal
	}
	r.Utterance.WaitMS = time.Since(w.Since).Milliseconds()
	id := r.Job()
	if _, known := d.placed[id]; !known {
		d.order = append(d.order, id)
	}
	d.placed[id] = r.Spec
	if d.before == nil {
		d.before = make(map[core.JobID]dispatch.PreviousJob)
	}
	d.before[id] = r.Previous
	return dispatch.Placement{Job: id, Node: "n1", Attempt: 1}, nil
}

func (d *fakeDispatcher) Cancel(ctx context.Context, id core.JobID) (*core.Job, bool, error) {
	d.mu.Lock()
	spec, ok := d.placed[id]
	d.cancelled = append(d.cancelled, id)
	d.mu.Unlock()
	if !ok {
		return nil, false, wire.Errorf(wire.NotFound, "no such job")
	}
	job := endedJob(id, spec, core.StateCancelled, core.ReasonCancelled, "")
	return job, true, d.registry.JobEnded(ctx, job, time.Now())
}

func (d *fakeDispatcher) ResumeWithAudio(_ context.Context, id core.JobID) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.placed[id]
	if known {
		d.resumed = append(d.resumed, id)
	}
	return known, nil
}

func (d *fakeDispatcher) Abandon(ctx context.Context, id core.JobID, reason core.Reason) (bool, error) {
	d.mu.Lock()
	spec, ok := d.placed[id]
	d.mu.Unlock()
	if !ok {
		return false, nil
	}
	return true, d.registry.JobEnded(ctx, endedJob(id, spec, core.StateFailed, reason, ""), time.Now())
}

// forgetJobs makes the dispatcher forget every job.
func (d *fakeDispatcher) forgetJobs() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order, d.placed = nil, make(map[core.JobID]core.Spec)
}

func (d *fakeDispatcher) EndedElsewhere(core.JobID) {}

// RecordPartial implements session.Jobs.
func (d *fakeDispatcher) RecordPartial(core.JobID, int) {}

// nodeBefore returns the node of the job before a job, as its request named it.
func (d *fakeDispatcher) nodeBefore(id core.JobID) core.NodeID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.before[id].Node
}

// jobs returns the jobs in the order in which they were dispatched.
func (d *fakeDispatcher) jobs() []core.JobID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.order)
}

// fakeConn is a connection that records what it was sent.
type fakeConn struct {
	mu     sync.Mutex
	frames []map[string]any
	code   wire.CloseCode
	err    *wire.Error
	slow   bool // it takes no binary frames
	done   chan struct{}

	connection *session.Connection // answers pings, if it is known
	stalled    bool                // pings are not answered
	pings      int
}

func (c *fakeConn) Ping(payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings++
	if c.connection != nil && !c.stalled {
		go c.connection.Pong(slices.Clone(payload))
	}
	return c.code == 0
}

// setConnection sets the session connection that receives the pongs.
func (c *fakeConn) setConnection(s *session.Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connection = s
}

// setStalled sets whether pings stay unanswered.
func (c *fakeConn) setStalled(stalled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = stalled
}

func (c *fakeConn) Send(f wire.Frame) bool {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		panic(err)
	}
	return c.SendText(text)
}

func (c *fakeConn) SendText(text []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code != 0 {
		return false
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		panic(err)
	}
	c.frames = append(c.frames, m)
	return true
}

func (c *fakeConn) Feed(next func() []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.slow {
		frame := next()
		if frame == nil {
			break
		}
		c.frames = append(c.frames, map[string]any{"type": "binary", "data": frame})
	}
	return c.code == 0
}

func (c *fakeConn) Close(code wire.CloseCode, err *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code == 0 {
		c.code, c.err = code, err
		c.end()
	}
}

func (c *fakeConn) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
	}
	return c.done
}

// end closes Done. The caller holds the lock.
func (c *fakeConn) end() {
	if c.done == nil {
		c.done = make(chan struct{})
	}
	close(c.done)
}

// disconnect ends the connection from the client's side.
func (c *fakeConn) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.code == 0 {
		c.code = wire.CloseNormal
		c.end()
	}
}

func (c *fakeConn) SendFinal(f wire.Frame) {
	c.Send(f)
	c.Close(wire.CloseNormal, nil)
}

// closed returns how the connection was closed; 0 if it was not.
func (c *fakeConn) closed() (wire.CloseCode, *wire.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code, c.err
}

// received returns the messages of some types.
func (c *fakeConn) received(types ...string) []map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []map[string]any
	for _, m := range c.frames {
		if slices.Contains(types, m["type"].(string)) {
			list = append(list, m)
		}
	}
	return list
}

// last returns the last message of a type.
func (c *fakeConn) last(t *testing.T, typ string) map[string]any {
	t.Helper()
	list := c.received(typ)
	if len(list) == 0 {
		t.Fatalf("no %s was received: %v", typ, c.frames)
	}
	return list[len(list)-1]
}

// terminals describes the terminal messages: "0 hola", "1 CANCELLED".
func (c *fakeConn) terminals() []string {
	var list []string
	for _, m := range c.received("result", "error") {
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

// resumeToken is the token that the session was given.
func (c *fakeConn) resumeToken(t *testing.T) string {
	t.Helper()
	return c.last(t, "session_started")["resume_token"].(string)
}

// gatedDispatcher dispatches a job only when its gate opens.
type gatedDispatcher struct {
	*fakeDispatcher
	gate chan struct{}
}

func (d *gatedDispatcher) Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error) {
	<-d.gate
	return d.fakeDispatcher.Dispatch(ctx, r)
}

// gatedStore delays the second save of a session until its gate opens.
type gatedStore struct {
	store.Store
	mu    sync.Mutex
	saves int
	gate  chan struct{}
}

func (s *gatedStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	s.mu.Lock()
	s.saves++
	wait := s.saves == 2
	s.mu.Unlock()
	if wait {
		<-s.gate
	}
	return s.Store.SaveSession(ctx, p)
}

// strictDispatcher refuses a request that was used with other content, as dispatch does.
type strictDispatcher struct{ *fakeDispatcher }

func (d strictDispatcher) Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error) {
	d.mu.Lock()
	old, known := d.placed[r.Job()]
	d.mu.Unlock()
	if known && old.Fingerprint() != r.Fingerprint() {
		return dispatch.Placement{}, wire.Errorf(wire.RequestMismatch, "used before with other content")
	}
	return d.fakeDispatcher.Dispatch(ctx, r)
}

// interleavedStore calls a function after a session was loaded, before it is taken over.
type interleavedStore struct {
	store.Store
	afterLoad func()
}

func (s *interleavedStore) LoadSession(ctx context.Context, key core.SessionKey) (store.SessionState, error) {
	st, err := s.Store.LoadSession(ctx, key)
	if then := s.afterLoad; then != nil {
		s.afterLoad = nil
		then()
	}
	return st, err
}

// switchableStore is a store that can be replaced by another at any moment.
type switchableStore struct{ store.Store }

// lostReplyStore carries the first save out and loses its reply.
type lostReplyStore struct {
	store.Store
	lost bool
}

func (s *lostReplyStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	held, err := s.Store.SaveSession(ctx, p)
	if !s.lost {
		s.lost = true
		return false, store.ErrDown
	}
	return held, err
}

// appendingStore calls a function right after the first missed message was looked up.
type appendingStore struct {
	store.Store
	afterRead func()
}

func (s *appendingStore) Read(ctx context.Context, p store.ReadParams) ([]store.OutboxMessage, error) {
	got, err := s.Store.Read(ctx, p)
	if p.Limit == 1 {
		s.afterRead()
	}
	return got, err
}

// lossyStore has lost some durable messages.
type lossyStore struct {
	store.Store
	from, to int64
}

func (s *lossyStore) Read(ctx context.Context, p store.ReadParams) ([]store.OutboxMessage, error) {
	list, err := s.Store.Read(ctx, p)
	return slices.DeleteFunc(list, func(m store.OutboxMessage) bool { return m.Seq >= s.from && m.Seq <= s.to }), err
}

// orderedDispatcher records the turns in the order of their calls, and dispatches them only when its gate opens.
type orderedDispatcher struct {
	*fakeDispatcher
	calls chan int64 // turns
	gate  chan struct{}
}

func (d *orderedDispatcher) Dispatch(ctx context.Context, r dispatch.Request) (dispatch.Placement, error) {
	d.calls <- r.Utterance.Turn
	select {
	case <-d.gate:
	case <-ctx.Done():
		return dispatch.Placement{}, ctx.Err()
	}
	return d.fakeDispatcher.Dispatch(ctx, r)
}

// blockedStore blocks every save but the first until its gate opens.
type blockedStore struct {
	store.Store
	gate    chan struct{}
	mu      sync.Mutex
	saves   int
	blocked int
}

func (s *blockedStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	s.mu.Lock()
	s.saves++
	if s.saves > 1 {
		s.blocked++
		s.mu.Unlock()
		<-s.gate
		return true, nil
	}
	s.mu.Unlock()
	return s.Store.SaveSession(ctx, p)
}

// fullStore refuses to save sessions while it is full.
type fullStore struct {
	store.Store
	full atomic.Bool
}

func (s *fullStore) SaveSession(ctx context.Context, p store.SaveParams) (bool, error) {
	if s.full.Load() {
		return false, errors.New("the store is full")
	}
	return s.Store.SaveSession(ctx, p)
}
