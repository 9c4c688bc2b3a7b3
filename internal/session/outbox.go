package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// maxCachedBytes bounds the durable messages of a session that are held in memory; others are read from the store.
	maxCachedBytes = wire.MaxFrame
	// maxWaitingBytes is how many bytes of results may wait for an earlier one without counting as unanswered.
	maxWaitingBytes = wire.MaxFrame
	// readLimit is how many durable messages are read at once.
	readLimit = 64
)

// resultQueue tracks the durable messages of a session. The number of a message is the turn of its utterance.
type resultQueue struct {
	last    int64 // the last message in the outbox, as far as is known
	sent    int64 // the last that was sent over this connection, or was lost before that
	acked   int64 // the last that the client has acknowledged
	counted int64 // the last that is in the totals, or was lost before it could be

	pending     map[int64]*utterance       // committed utterances whose terminal message was not sent, by turn
	cached      map[int64]*terminalMessage // messages that were appended here, or arrived, and were not sent yet
	cachedBytes int
	totals      wire.SessionEnded
}

// makeResultQueue makes an empty queue.
func makeResultQueue() resultQueue {
	return resultQueue{pending: make(map[int64]*utterance), cached: make(map[int64]*terminalMessage)}
}

// hasUnsent reports whether there are messages that were not sent.
func (q *resultQueue) hasUnsent() bool { return q.sent < q.last }

// cache holds a message until it is sent, unless the cache is full.
func (q *resultQueue) cache(seq int64, m *terminalMessage) {
	if seq > q.sent && q.cached[seq] == nil && q.cachedBytes+len(m.body) <= maxCachedBytes {
		q.cached[seq] = m
		q.cachedBytes += len(m.body)
	}
}

// takeCached removes a message from the cache and returns it; nil when it is not there.
func (q *resultQueue) takeCached(seq int64) *terminalMessage {
	m := q.cached[seq]
	if m != nil {
		delete(q.cached, seq)
		q.cachedBytes -= len(m.body)
	}
	return m
}

// acknowledge records that the client has the messages up to one. It reports whether that is new.
func (q *resultQueue) acknowledge(seq int64) bool {
	if seq = min(seq, q.sent); seq <= q.acked {
		return false
	}
	q.acked = seq
	return true
}

// skipTo continues after a message that is lost, as are those before it. It returns the utterances that were pending.
func (q *resultQueue) skipTo(seq int64) (skipped []*utterance) {
	q.sent, q.counted = seq, max(q.counted, seq)
	for cached := range q.cached {
		if cached <= seq {
			q.takeCached(cached)
		}
	}
	for turn, u := range q.pending {
		if turn <= seq {
			delete(q.pending, turn)
			skipped = append(skipped, u)
		}
	}
	return skipped
}

// pendingInOrder returns the pending utterances in the order of their turns.
func (q *resultQueue) pendingInOrder() []*utterance {
	list := slices.Collect(maps.Values(q.pending))
	sortByTurn(list)
	return list
}

// unanswered is how many utterances have no terminal message. Those that have one, and wait for an earlier one, do not count
// while they are small: they wait in the store.
func (q *resultQueue) unanswered() int {
	n, bytes := len(q.pending), 0
	for _, u := range q.pending {
		if bytes += u.result.size; u.result.stored && bytes <= maxWaitingBytes {
			n--
		}
	}
	return n
}

// count adds a terminal message to the totals.
func (q *resultQueue) count(isResult bool, audioMS int64) {
	if !isResult {
		q.totals.Errors++
		return
	}
	q.totals.Results++
	q.totals.AudioMS += audioMS
}

// countStored adds a stored message to the totals.
func (q *resultQueue) countStored(m store.OutboxMessage) {
	t, err := decodeTerminalMessage(m.Body)
	if err != nil {
		q.count(false, 0)
		return
	}
	q.count(t.Result, t.AudioMS)
}

// outbox delivers the durable messages of a session to its client, in order. The session's mutex guards it.
type outbox struct {
	resultQueue
	session *Session
	reading bool // messages are being read from the store
}

// messageAppended handles the news that the terminal message of a turn is in the outbox, which now ends at last. m is nil when
// the message has to be read, and received is when its result arrived here, zero if that is not known.
func (o *outbox) messageAppended(turn, last int64, m *terminalMessage, received time.Time) {
	s := o.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return
	}
	countsOn := last >= o.last
	if !countsOn {
		s.saver.markChanged() // the store has lost messages that were sent: the saved state says where the count continues
	}
	o.last = max(o.last, last)
	if m != nil {
		o.cache(turn, m)
	}
	if u := o.pending[turn]; u != nil {
		u.result.stored, u.result.storedAt = true, time.Now()
		if s.conn != nil && turn == o.sent+1 {
			u.result.received = received
		}
		if m != nil {
			u.result.size = len(m.body)
		}
		u.releaseAudio()
		s.registry.audio.Remove(u.job) // no attempt needs it any more
	}
	o.flush()
	if countsOn {
		o.restoreNext()
	}
}

// restoreNext appends the next message again if the store has lost it: it was appended and waited for the one before, which is there now,
// and the outbox still ends with that one.
func (o *outbox) restoreNext() {
	seq := o.last + 1
	u := o.pending[seq]
	if u == nil || !u.result.stored {
		return
	}
	u.result.stored = false
	s, m := o.session, o.cached[seq]
	s.registry.log.Warn("the store has lost a result that waited for an earlier one", "session_id", s.ref.Name, "job_id", u.job, "known",
		m != nil)
	s.registry.background.Go(func(ctx context.Context) {
		if m != nil {
			s.registry.placer.appendTerminal(ctx, u, m)
			return
		}
		s.registry.placer.fail(ctx, u, wire.Errorf(wire.Internal, lostResult), core.ReasonNone)
	})
}

// lostResult is the detail of the error that a client gets in place of a result that was lost.
const lostResult = "this utterance had ended, and its result was lost before it could be sent"

// flush sends the durable messages that were not sent yet, in order. Cached messages are sent now; others are read in the
// background.
func (o *outbox) flush() {
	s := o.session
	for s.conn != nil && o.hasUnsent() {
		m := o.takeCached(o.sent + 1)
		if m == nil {
			break
		}
		o.deliver(o.sent+1, m)
	}
	if s.conn != nil && o.hasUnsent() && !o.reading {
		o.reading = true
		s.registry.background.Go(o.read)
	}
	s.endIfComplete()
}

// deliver sends one durable message and, if it is the first time, ends its utterance.
func (o *outbox) deliver(seq int64, m *terminalMessage) {
	s := o.session
	o.takeCached(seq)
	o.sent = seq
	u := o.pending[seq]
	if u == nil {
		u = o.findSent(seq)
	}
	speech := o.speechOf(u, m)
	o.send(u, m, speech)
	if u == nil || u.result.sent {
		if u != nil && speech == speechFollows && !u.speech.isEmpty() {
			s.speech.send(u) // it arrived while no client was connected
		}
		return
	}
	delete(o.pending, seq)
	if m.Node != "" {
		s.recordPlacement(seq, m.Node, "")
	}
	o.counted = max(o.counted, seq)
	u.result.stored, u.result.sent = true, true
	u.releaseAudio()
	trace := s.registry.cfg.Tracer.Of(u.job)
	s.registry.metrics.ObserveOutcome(u.committedAt, m.Result, trace.ExemplarID())
	if m.Lag != nil && !u.committedAt.IsZero() {
		sent := m.Lag.sent(time.Since(u.committedAt))
		s.registry.metrics.ObserveLag(sent)
		s.activity.observeLag(sent)
	}
	if trace.Sampled() {
		traceSend(trace, u.result.storedAt, m)
	}
	u.observeSent()
	o.count(m.Result, u.spec.Utterance.AudioMS)
	if speech != speechFollows {
		u.speech.lose(s.registry.audio) // it was of an attempt whose result does not stand, or goes to another instance
		s.dropUtterance(u)
		return
	}
	u.speech.progressAt = time.Now()
	if u.result.attempt = m.Attempt; u.speech.attempt != m.Attempt {
		u.speech.restart(s.registry.audio, m.Attempt)
		return
	}
	s.speech.send(u)
}

// findSent finds an utterance whose result was sent over an earlier connection and whose speech may still follow; nil when
// there is none.
func (o *outbox) findSent(seq int64) *utterance {
	for _, u := range o.session.unfinished {
		if u.turn == seq {
			return u
		}
	}
	return nil
}

// speechOf is what a terminal message says of speech: that it follows only if it can still be delivered.
func (o *outbox) speechOf(u *utterance, m *terminalMessage) string {
	switch {
	case m.Speech != speechFollows:
		return m.Speech
	case u == nil || u.speech.isLost(m.Attempt):
		return speechLost
	case u.speech.hasBegun(m.Attempt) || m.At == o.session.registry.cfg.Instance:
		return speechFollows
	}
	return speechLost
}

// send sends a terminal message.
func (o *outbox) send(u *utterance, m *terminalMessage, speech string) {
	conn := o.session.conn
	if speech != speechFollows {
		conn.SendText(m.text(speech, nil))
		return
	}
	format := u.speech.formatOf(m)
	conn.SendText(m.text(speech, &format))
}

// read reads durable messages from the store and sends them: messages that were appended elsewhere, or that are sent again.
func (o *outbox) read(ctx context.Context) {
	s := o.session
	for retry := storeBackoff; ; {
		s.mu.Lock()
		after := o.sent
		if s.conn == nil || s.finished || !o.hasUnsent() {
			o.reading = false
			s.endIfComplete()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		messages, err := s.registry.store.Read(ctx, store.ReadParams{Session: s.ref, After: after, Limit: readLimit})
		if err != nil {
			s.registry.log.Warn("the store did not answer", "operation", "outbox", "error", err)
			if !retry.Wait(ctx) {
				return
			}
			continue
		}
		s.mu.Lock()
		o.deliverStored(messages)
		if len(messages) == 0 {
			o.deliverLost(o.last)
		}
		s.mu.Unlock()
	}
}

// deliverStored sends durable messages that were read.
func (o *outbox) deliverStored(messages []store.OutboxMessage) {
	s := o.session
	for _, stored := range messages {
		if s.conn == nil || stored.Seq <= o.sent {
			continue
		}
		o.deliverLost(stored.Seq - 1)
		m, err := decodeTerminalMessage(stored.Body)
		if err != nil {
			s.registry.log.Error("a durable message is skipped", "session_id", s.ref.Name, "error", err)
			o.deliverLost(stored.Seq)
			continue
		}
		o.deliver(stored.Seq, m)
	}
}

// deliverLost continues after durable messages that were lost before they were sent, because the outbox was full or the store
// has lost them. Each of their utterances ends with an error.
func (o *outbox) deliverLost(to int64) {
	s := o.session
	for seq := o.sent + 1; seq <= to && s.conn != nil; seq++ {
		u := o.pending[seq]
		if u == nil {
			continue
		}
		m, err := failureMessage(&u.spec, u.job, wire.Errorf(wire.Internal, lostResult), core.ReasonNone)
		if err != nil {
			s.registry.log.Error("a message could not be written", "job_id", u.job, "error", err)
			continue
		}
		o.deliver(seq, m)
	}
	if s.conn != nil {
		o.skip(max(o.sent, to))
	}
}

// skip continues after durable messages that are lost. Their utterances end without one.
func (o *outbox) skip(to int64) {
	for _, u := range o.skipTo(to) {
		u.result.stored, u.result.sent = true, true
		u.placement.cancel()
		u.releaseAudio()
		o.session.dropUtterance(u)
	}
}

// confirm records that the client has the durable messages up to one.
func (o *outbox) confirm(seq int64) {
	if o.acknowledge(seq) {
		o.session.saver.markChanged()
	}
}

// check looks for durable messages in the store that were not reported to this instance, in the background.
func (o *outbox) check() {
	if len(o.pending) > 0 && o.session.conn != nil && !o.reading {
		o.reading = true
		o.session.registry.background.Go(o.readLast)
	}
}

// readLast finds the last durable message in the store.
func (o *outbox) readLast(ctx context.Context) {
	s := o.session
	s.mu.Lock()
	after := o.last
	s.mu.Unlock()
	last, err := scanOutbox(ctx, s.registry.store, s.ref, after, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	o.reading = false
	if err == nil && !s.finished {
		o.last = max(o.last, last)
		o.flush()
		o.restoreNext()
	}
}

// firstMessage is the number of the first durable message of a session after one; 0 when there is none.
func firstMessage(ctx context.Context, st Store, ref core.SessionRef, after int64) (int64, error) {
	messages, err := st.Read(ctx, store.ReadParams{Session: ref, After: after, Limit: 1})
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	return messages[0].Seq, nil
}

// scanOutbox reads the durable messages of a session after one, passes them to each unless that is nil, and returns the number
// of the last.
func scanOutbox(ctx context.Context, st Store, ref core.SessionRef, after int64, each func(store.OutboxMessage)) (int64, error) {
	for {
		messages, err := st.Read(ctx, store.ReadParams{Session: ref, After: after, Limit: readLimit})
		if err != nil || len(messages) == 0 {
			return after, err
		}
		for _, m := range messages {
			if each != nil {
				each(m)
			}
		}
		after = messages[len(messages)-1].Seq
	}
}
