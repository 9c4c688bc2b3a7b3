package stats

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// Reader has this instance's copy of the current snapshot. A request gets that copy, however old it is: it never waits, and computes
// nothing.
type Reader struct {
	stats     store.Values
	reachable func() bool // this instance can use the store
	generator *Generator
	kind      string                   // of the store
	ages      map[wire.StatsAge]string // parts of answers
	log       *slog.Logger
	since     time.Time // when it was made

	current atomic.Pointer[answer] // nil: there was none yet
	wanted  chan struct{}          // a request found no snapshot

	points       atomic.Pointer[clusterPoints] // of the cluster, of the last hour
	pointsLoaded bool                          // those from before the start were read; of Run alone
}

// NewReader makes a reader of the snapshots in a store of a kind, while that is reachable. If there is none, the generator computes one.
func NewReader(st store.Values, generator *Generator, kind string, reachable func() bool, log *slog.Logger) *Reader {
	return &Reader{
		stats: st, generator: generator, kind: kind, reachable: reachable, ages: encodeAges(kind), log: log, since: time.Now(),
		wanted: make(chan struct{}, 1),
	}
}

// answer is a snapshot as a request gets it, but for what depends on the time of the request.
type answer struct {
	version string        // of the snapshot; empty: it was not published
	made    int64         // when it was computed, in Unix milliseconds on the clock of the instance that did
	rest    []byte        // the encoded snapshot, without its opening brace and the fields of StatsAge
	age     time.Duration // at read
	read    time.Time

	coverage telemetry.Coverage
	demand   map[string]Demand // by direction; nil: it is not known
}

const (
	// readInterval is the least time between two reads of the snapshot, and maxReadInterval the longest: a store that cannot be read is
	// noticed by reads alone. It is longer than the default interval of snapshots, so that each of them is read once. publishDelay is how
	// much later than expected a snapshot may be published.
	readInterval    = time.Second
	maxReadInterval = 6 * time.Second
	publishDelay    = 300 * time.Millisecond
	// generateInterval is the least time between two snapshots that are computed because there was none.
	generateInterval = 30 * time.Second
	// notReadyRetry is when a request that found no snapshot may find one.
	notReadyRetry = time.Second
	// staleIntervals is how many intervals old a snapshot is when it counts as stale.
	staleIntervals = 3
)

// Answer returns the current snapshot as JSON in two parts, and whether it is stale. The head, with what depends on the moment, is appended
// to a buffer; the rest is shared by all answers and must not be changed. So a request neither encodes nor copies the snapshot.
func (r *Reader) Answer(buf []byte) (head, rest []byte, stale bool, err *wire.Error) {
	a := r.current.Load()
	if a == nil {
		select {
		case r.wanted <- struct{}{}:
		default:
		}
		return nil, nil, false, wire.Errorf(wire.StatsNotReady,
			"no statistics were computed yet: try again in a moment").RetryIn(notReadyRetry)
	}
	live := r.age(a)
	head = strconv.AppendInt(append(buf, agePrefix...), live.AgeMS, 10)
	live.AgeMS = 0
	return append(head, r.ages[live]...), a.rest, live.Stale, nil
}

// agePrefix is what an encoded StatsAge has before the age.
const agePrefix = `{"age_ms":`

// encodeAges encodes what the snapshots in a store of a kind may have as their StatsAge: what follows the age, and a comma, by the value
// without the age.
func encodeAges(kind string) map[wire.StatsAge]string {
	all := make(map[wire.StatsAge]string)
	for _, stale := range []bool{false, true} {
		for _, reachable := range []bool{false, true} {
			age := wire.StatsAge{Stale: stale, Store: wire.StatsStore{Kind: kind, Reachable: reachable}}
			body, _ := json.Marshal(&age) // of plain fields: it cannot fail
			rest := bytes.TrimPrefix(body, []byte(agePrefix+"0"))
			all[age] = string(rest[:len(rest)-1]) + ","
		}
	}
	return all
}

// Snapshot returns when the current snapshot was computed, in Unix milliseconds, and its age; 0 if there is none.
func (r *Reader) Snapshot() (generatedMS int64, age time.Duration) {
	a := r.current.Load()
	if a == nil {
		return 0, 0
	}
	return a.made, a.age + time.Since(a.read)
}

func (r *Reader) age(a *answer) wire.StatsAge {
	age, reachable := a.age+time.Since(a.read), r.reachable()
	return wire.StatsAge{
		AgeMS: age.Milliseconds(), Stale: !reachable || age > staleIntervals*r.generator.Interval,
		Store: wire.StatsStore{Kind: r.kind, Reachable: reachable},
	}
}

// Run reads the snapshot again and again until the context ends.
func (r *Reader) Run(ctx context.Context) {
	var generating sync.WaitGroup
	defer generating.Wait()
	var generated time.Time
	for {
		r.read(ctx)
		wanted := r.wanted
		if r.current.Load() != nil || !generated.IsZero() && time.Since(generated) < generateInterval {
			wanted = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wanted:
			generated = time.Now()
			generating.Go(func() { r.generate(ctx) })
		case <-time.After(run.Jitter(r.untilNextRead(), 0.1)):
		}
	}
}

// untilNextRead returns when the snapshot is read again: when the next one is expected.
func (r *Reader) untilNextRead() time.Duration {
	a := r.current.Load()
	if a == nil || !r.reachable() {
		return readInterval
	}
	expected := r.generator.Interval + publishDelay - a.age - time.Since(a.read)
	return min(max(expected, readInterval), maxReadInterval)
}

// read reads the snapshot from the store, if it is another one. When there is none, or the store does not answer, the last one stays.
func (r *Reader) read(ctx context.Context) {
	q := store.ValueQuery{Key: snapshotKey}
	last := r.current.Load()
	if last != nil && last.age+time.Since(last.read) < r.generator.Interval {
		q.Known = last.version // otherwise there is another one by now, most probably: to ask first costs a command more
	}
	snap, err := store.ReadValue(ctx, r.stats, q)
	if err != nil || snap.Parts == nil || last != nil && snap.Version == last.version {
		return
	}
	s := publishedStats{Stats: new(wire.Stats)}
	if err := json.Unmarshal(snap.Parts[store.BodyPart], &s); err != nil { // of another version
		r.log.Warn("the snapshot of the statistics cannot be read", "error", err)
		return
	}
	next := newAnswer(snap, s.Stats)
	next.demand = s.Demand
	r.current.Store(next)
	r.addPoint(ctx, s.Point)
}

// addPoint adds a point to the series of the cluster. The first time it also reads those that were published before this instance started.
func (r *Reader) addPoint(ctx context.Context, p wire.ClusterPoint) {
	if p.AtMS == 0 {
		return // a leader of an earlier version publishes none
	}
	next := new(clusterPoints)
	if old := r.points.Load(); old != nil {
		next.points = append(next.points, old.points...)
	}
	if !r.pointsLoaded {
		if parts, err := readHistory(ctx, r.stats); err == nil {
			r.pointsLoaded, next = true, decodePoints(parts, time.UnixMilli(p.AtMS)) // the ones that were read before are among them
		}
	}
	next.add(p)
	r.points.Store(next)
}

// Series returns the points of the cluster after a time. It does not wait.
func (r *Reader) Series(from time.Time) wire.ClusterSeries {
	out := wire.ClusterSeries{IntervalMS: r.generator.Interval.Milliseconds(), Points: []wire.ClusterPoint{}}
	if c := r.points.Load(); c != nil {
		for _, p := range c.points {
			if p.AtMS > from.UnixMilli() {
				out.Points = append(out.Points, p)
			}
		}
	}
	return out
}

// generate computes a snapshot for this instance, unless one was published meanwhile.
func (r *Reader) generate(ctx context.Context) {
	s, err := r.generator.Generate(ctx)
	if err != nil {
		return // the requests are answered that there is none
	}
	r.current.CompareAndSwap(nil, newAnswer(store.Value{}, s))
}

func newAnswer(snap store.Value, s *wire.Stats) *answer {
	s.StatsAge = wire.StatsAge{}
	body, _ := json.Marshal(s)                // of plain fields: it cannot fail
	live, _ := json.Marshal(&wire.StatsAge{}) // the first fields of the snapshot
	rest := bytes.TrimPrefix(body, append(live[:len(live)-1], ','))
	return &answer{version: snap.Version, made: s.GeneratedMS, rest: rest, age: snap.Age, read: time.Now(), coverage: coverageOf(s)}
}
