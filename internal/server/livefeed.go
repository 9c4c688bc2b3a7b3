package server

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// feedIdle is after how long without a read, because nobody had a stream, the feed begins at the end of the log again.
	feedIdle = 5 * time.Second
	// feedTimeout bounds one read of the log.
	feedTimeout = 5 * time.Second
)

// maxLiveEvents is how many events the feed keeps for streams that have not sent them yet. A stream that is further behind sends a gap.
const maxLiveEvents = 1024

// liveFeed reads the event log and the statistics once for all streams of an instance, and encodes them once.
type liveFeed struct {
	log     journal.Log[store.Event]
	stats   StatsReader
	reading atomic.Bool // one stream reads for all

	mu     run.Mutex   // guards the rest
	readAt time.Time   // when the log was read last
	after  string      // the position up to which it was read
	begun  bool        // the end of the log was found
	next   uint64      // the number of the next event
	events []liveEvent // the last ones, the oldest first

	pointMS int64  // of the point that was encoded last
	point   []byte // encoded
}

func newLiveFeed(log journal.Log[store.Event], stats StatsReader) *liveFeed {
	return &liveFeed{log: log, stats: stats, mu: run.NewMutex("server_live")}
}

// liveEvent is an event of the log as it is sent.
type liveEvent struct {
	number uint64
	event  *store.Event
	data   []byte
}

// refresh reads what is new, if another stream did not do so a moment ago. It does not wait for another that is doing so. The read is for
// all streams, so it does not end with the request of this one.
func (f *liveFeed) refresh(ctx context.Context) {
	if !f.reading.CompareAndSwap(false, true) {
		return
	}
	defer f.reading.Store(false)
	f.mu.Lock()
	idle := time.Since(f.readAt)
	if f.begun && idle >= feedIdle { // nobody had a stream: what happened meanwhile is not news
		f.begun, f.after, f.events = false, "", nil
		f.next++ // a stream that waited so long for the store finds a gap
	}
	due, after, begun := idle >= streamInterval, f.after, f.begun
	f.mu.Unlock()
	if !due {
		return
	}
	limit := maxEvents
	if !begun {
		limit = 1 // only the end of the log is wanted
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), feedTimeout)
	defer cancel()
	page, err := f.log.Read(ctx, store.ReadLogParams{After: after, Limit: limit})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readAt = time.Now()
	if err != nil {
		return // it is read at the next time
	}
	if len(page.Entries) > 0 {
		f.after = page.Entries[len(page.Entries)-1].ID
	}
	if f.begun {
		f.add(page)
	}
	f.begun = true
	f.encodePoint()
}

// add adds the events of a page. After a gap of the log, streams must not find the number that they expect.
func (f *liveFeed) add(page journal.Page[store.Event]) {
	if page.Gap {
		f.next, f.events = f.next+1, nil
	}
	for i := range page.Entries {
		e := &page.Entries[i]
		data, err := json.Marshal(viewEvent(e))
		if err != nil {
			continue // of plain fields: it cannot fail
		}
		f.events = append(f.events, liveEvent{f.next, e, data})
		f.next++
	}
	if n := len(f.events) - maxLiveEvents; n > 0 {
		f.events = f.events[n:]
	}
}

// encodePoint encodes the newest point of the statistics, if it is new.
func (f *liveFeed) encodePoint() {
	generated, _ := f.stats.Snapshot()
	if generated == 0 || generated == f.pointMS {
		return
	}
	points := f.stats.Series(time.UnixMilli(generated - 1)).Points
	if len(points) == 0 {
		return
	}
	last := &points[len(points)-1]
	if data, err := json.Marshal(wire.LiveOverview{Point: *last}); err == nil {
		f.pointMS, f.point = generated, data
	}
}

// begin returns the number from which on a new stream sends events.
func (f *liveFeed) begin() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// since returns the events from a number on that a tenant may see, nil: all tenants, and the number to continue with. It reports whether
// some are missing.
func (f *liveFeed) since(number uint64, tenant *core.TenantID) (data [][]byte, next uint64, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := f.next
	if len(f.events) > 0 {
		oldest = f.events[0].number
	}
	for i := range f.events {
		if e := &f.events[i]; e.number >= number && visibleEvent(e.event, tenant) {
			data = append(data, e.data)
		}
	}
	return data, f.next, number < oldest && number < f.next
}

// newPoint returns the newest point, if it is not the one of a time.
func (f *liveFeed) newPoint(known int64) (at int64, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pointMS == known {
		return known, nil
	}
	return f.pointMS, f.point
}
