package stats

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Generator computes snapshots of the statistics: the leader's, which it publishes, and one for this instance alone when there is none.
type Generator struct {
	Instance core.InstanceID
	Stats    store.Values
	Fleet    *fleet.Fleet
	Catalog  *health.Catalog // has the names and versions of services
	Peers    func(context.Context) ([]bus.Peer, error)
	Interval time.Duration // between two snapshots
	TTL      time.Duration // of a snapshot, after which it is gone
	Log      *slog.Logger
	Events   *journal.Events // of changes of the coverage; nil: they are not recorded
	// Judge is called by the leader at every step, with what all instances have seen of nodes since the step before, and the directions
	// that were requested in the last day; nil: nothing is called.
	Judge func(ctx context.Context, fence int64, seen health.Report, directions []core.Direction)
	// DeadLetters returns how many all instances have. It does not ask the store, at which every step would cost commands.
	DeadLetters func() int

	mu       sync.Mutex // held while a snapshot is computed
	survey   *survey
	surveyed time.Time     // when the survey ended
	took     time.Duration // how long the survey took
}

const (
	historyTTL = 25 * time.Hour
	// surveyShare bounds what the pass over all nodes costs: it takes at most one surveyShare-th of the time of one core.
	surveyShare = 50
)

// untilNext returns the time until the next multiple of an interval of the clock, and an offset after it. Instances publish their counts
// soon after the multiples, and the leader reads them in the middle between two: so each step finds one publication of each instance. If
// the two drifted past each other, a step would find none, and the next one two, and the series of the cluster would show a gap and a
// burst.
func untilNext(now time.Time, interval, offset time.Duration) time.Duration {
	return now.Add(-offset).Truncate(interval).Add(interval + offset).Sub(now.Round(0))
}

// Lead publishes snapshots with a fence until the context ends, or until a leader with a higher fence has published one. The first one is
// published at once.
func (g *Generator) Lead(ctx context.Context, fence int64) {
	var past *history
	for {
		saved := true
		err := func() (err error) {
			if past == nil {
				if past, err = g.loadHistory(ctx); err != nil {
					return err
				}
			}
			saved, err = g.step(ctx, fence, past)
			return err
		}()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			g.Log.Warn("no snapshot of the statistics was published", "fence", fence, "error", err)
		case !saved:
			g.Log.Warn("another instance publishes snapshots of the statistics by now", "fence", fence)
			return
		}
		wait := untilNext(time.Now(), g.Interval, g.Interval/2)
		if wait < 2*readInterval {
			wait += g.Interval // each instance must read this snapshot before the next one, or it lacks a point of the series
		}
		if !run.Sleep(ctx, wait) {
			return
		}
	}
}

func (g *Generator) loadHistory(ctx context.Context) (*history, error) {
	parts, err := readHistory(ctx, g.Stats)
	if err != nil {
		return nil, err
	}
	return decodeHistory(parts), nil
}

// step adds the counts of all instances to the history and publishes a snapshot. It reports whether the store accepted the fence.
func (g *Generator) step(ctx context.Context, fence int64, past *history) (saved bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	peers, err := g.Peers(ctx)
	if err != nil {
		return false, err
	}
	step := newStepCounts()
	seen, err := g.addCounts(ctx, past, peers, now, step)
	if err != nil {
		return false, err
	}
	day := past.sum(quarters, quarters.length, now)
	if g.Judge != nil {
		g.Judge(ctx, fence, seen, wantedDirections(day))
	}
	snapshot := publishedStats{Stats: g.compute(past, day, peers, fence, now)}
	snapshot.Point = newPoint(snapshot.Stats, step, past.series.last(), g.Interval)
	snapshot.Demand = demandOf(past.sum(minutes, recentMinutes, now), step)
	past.addPoint(snapshot.Point)
	g.watchCoverage(past, day, now)
	parts, err := past.parts(now)
	if err != nil {
		return false, err
	}
	if saved, err = writeHistory(ctx, g.Stats, fence, parts); err != nil || !saved {
		return saved, err
	}
	past.stored()
	g.recordCoverage(past)
	body, err := json.Marshal(&snapshot)
	if err != nil {
		return false, err
	}
	return g.Stats.WriteValue(ctx, store.WriteValueParams{
		Key: snapshotKey, Fence: fence, Parts: map[string][]byte{store.BodyPart: body}, TTL: g.TTL,
	})
}

// publishedStats is a snapshot as it is published, with the newest point of the series of the cluster.
type publishedStats struct {
	*wire.Stats
	Point  wire.ClusterPoint `json:"series_point"`
	Demand map[string]Demand `json:"demand"` // by direction
}

// Generate computes a snapshot from what the store has, and publishes nothing.
func (g *Generator) Generate(ctx context.Context) (*wire.Stats, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	past, err := g.loadHistory(ctx)
	if err != nil {
		return nil, err
	}
	peers, err := g.Peers(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return g.compute(past, past.sum(quarters, quarters.length, now), peers, 0, now), nil
}

// addCounts adds what all instances have published, and returns what they have seen of nodes lately. The last counts of an instance that
// has ended are read until they expire.
func (g *Generator) addCounts(ctx context.Context, past *history, peers []bus.Peer, now time.Time, step *stepCounts) (seen health.Report,
	err error) {
	var ids []core.InstanceID
	present := make(map[core.InstanceID]bool)
	for i := range peers {
		ids = append(ids, peers[i].ID)
		present[peers[i].ID] = peers[i].Present
	}
	for id := range past.counted {
		if _, listed := present[id]; !listed {
			ids = append(ids, id)
		}
	}
	queries := make([]store.ValueQuery, len(ids))
	for i, id := range ids {
		queries[i].Key = countsKey(id)
	}
	all, err := g.Stats.ReadValues(ctx, queries...)
	if err != nil {
		return seen, err
	}
	for i := range all {
		body := all[i].Parts[store.BodyPart]
		if body == nil {
			continue
		}
		running := present[ids[i]]
		present[ids[i]] = true
		var p published
		if err := json.Unmarshal(body, &p); err != nil { // of another version
			g.Log.Warn("the counts of an instance cannot be read; the statistics lack them", "instance", ids[i], "error", err)
			continue
		}
		if p.Seq > past.counted[ids[i]].Seq { // else it was published before the last step
			seen.Merge(p.Health)
		}
		past.add(ids[i], p.counted, now, step)
		addDurations(step.waits, p.Waits)
		if running {
			step.waiting += p.Load.Waiting
			for direction, n := range p.Waiting {
				step.waitingBy.add(direction, max(0, n), health.MaxNames)
			}
		}
	}
	past.retain(present)
	return seen, nil
}

// compute makes a snapshot from the history and what it has of the last day. The pass over all nodes is repeated only if it is cheap, or
// long ago.
func (g *Generator) compute(past *history, day tally, peers []bus.Peer, fence int64, now time.Time) *wire.Stats {
	if g.survey == nil || time.Since(g.surveyed) >= surveyShare*g.took {
		began := time.Now()
		g.survey = surveyFleet(g.Fleet, g.Catalog.Services(), wantedDirections(day))
		g.surveyed = time.Now()
		g.took = g.surveyed.Sub(began)
	}
	s := &wire.Stats{
		GeneratedMS: now.UnixMilli(), GeneratedBy: string(g.Instance), Fence: fence,
		Nodes: g.survey.nodes, Coverage: g.survey.coverage, Compute: g.survey.compute,
	}
	recent, hour := past.sum(minutes, recentMinutes, now), past.sum(minutes, minutes.length, now)
	s.Jobs = wire.StatsJobs{Last5m: outcomesOf(recent), LastHour: outcomesOf(hour), LastDay: outcomesOf(day)}
	s.Languages = wire.StatsLanguages{Last5m: useOf(recent), LastHour: useOf(hour), LastDay: useOf(day)}
	s.Instances.DeadLetters = g.DeadLetters()
	for i := range peers {
		switch p := &peers[i]; {
		case !p.Present:
			s.Instances.Absent++
		default:
			s.Instances.Present++
			s.Sessions += p.Sessions
			s.InFlight += p.Jobs
			if p.Draining {
				s.Instances.Draining++
			}
		}
	}
	return s
}

// recentMinutes is the shortest period of a snapshot.
const recentMinutes = 5

// wantedDirections returns the directions that were requested in a period, the most requested first.
func wantedDirections(t tally) []core.Direction {
	var wanted []core.Direction
	for _, c := range []counts{t.Directions, t.Refused} {
		names, _ := c.largest(maxListed)
		for _, name := range names {
			if d, ok := parseDirection(name); ok && len(wanted) < maxListed && !slices.Contains(wanted, d) {
				wanted = append(wanted, d)
			}
		}
	}
	return wanted
}

func outcomesOf(t tally) wire.StatsOutcomes {
	return wire.StatsOutcomes{Total: t.Outcomes.sum(), Outcomes: t.Outcomes, Reasons: t.Reasons}
}

func useOf(t tally) wire.StatsUse {
	names, rest := t.Directions.largest(maxListed)
	u := wire.StatsUse{Directions: make([]wire.DirectionUse, 0, len(names)), Other: rest, Total: t.Directions.sum()}
	for _, name := range names {
		d, _ := parseDirection(name)
		u.Directions = append(u.Directions, wire.DirectionUse{SrcLang: string(d.Src), TgtLang: string(d.Tgt), Jobs: t.Directions[name]})
	}
	return u
}
