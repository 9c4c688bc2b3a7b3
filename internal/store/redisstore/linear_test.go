package redisstore_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

var operations = flag.Int("operations", 6000, "how many calls TestLedgerIsLinearizable makes, at least")

// checkWithin bounds the search for an order of one node's calls.
const checkWithin = time.Minute

// TestLedgerIsLinearizable lets several schedulers work on the same nodes at once, with leases and presences that
// lapse under them, and looks for an order of all their calls in which every single answer is the right one. It keeps
// the machine busy, so it does not run beside tests that watch the clock.
func TestLedgerIsLinearizable(t *testing.T) {
	const rounds = 24
	nodes := (*operations + perNode(rounds) - 1) / perNode(rounds)
	began := time.Now()
	history := recordHistory(t, schedulers(t, redistest.Start(t).URL(), nil), nodes, rounds)
	recorded := time.Since(began).Round(time.Millisecond)
	f := checkHistory(history)
	checked := time.Since(began).Round(time.Millisecond) - recorded
	t.Logf("%d operations of %d clients on %d nodes, %d beside another, %d leases lapsed: %s (recorded in %v, checked in %v)",
		len(history), nodes*dispatchers, nodes, f.overlaps, f.lapsed, f.result, recorded, checked)
	t.Logf("answers: %s", f.census())
	if f.result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s", f.trouble)
	}
	if len(history) < *operations || f.lapsed == 0 || f.overlaps == 0 {
		t.Error("that proves nothing")
	}
	for _, must := range []string{
		"reserve OK", "reserve FULL", "reserve NOT_READY", "reserve STALE_EPOCH", "reserve STALE_REVISION",
		"renew OK", "renew STALE_EPOCH", "commit true", "commit false", "release true", "release false",
	} {
		if f.answers[must] == 0 {
			t.Errorf("%q was never answered", must)
		}
	}
}

// TestBrokenLedgersAreCaught breaks the ledger in the ways that somebody once did, has the same work done and asks
// the same question: a checker that finds nothing wrong with these finds nothing.
func TestBrokenLedgersAreCaught(t *testing.T) {
	altered := func(script, passage, other string) redisstore.Instead {
		instead, err := redisstore.Altered(script, passage, other)
		if err != nil {
			t.Fatal(err)
		}
		return instead
	}
	url := redistest.Start(t).URL()
	for _, c := range []struct {
		name    string
		instead redisstore.Instead
		want    porcupine.CheckResult
	}{
		{"nothing but a comment is changed", altered("reserve", "Takes a slot", "Grants a slot"), porcupine.Ok},
		{"reserve counts what has lapsed", altered("reserve", "'ZCOUNT', KEYS[2], live, '+inf'", "'ZCARD', KEYS[2]"), porcupine.Illegal},
		{"commit takes what has lapsed", altered("commit", "if expires <= tick or ", "if "), porcupine.Illegal},
		{"reserve looks at no epoch", altered("reserve", "if meta[1] ~= epoch then", "if false then"), porcupine.Illegal},
		{"reserve asks nothing of the gate", altered("reserve", "grant[1] == ARGV[3] and", "grant[1] and grant[1] ~= '' and"), porcupine.Illegal},
		{"reserve takes the room for free", altered("reserve", "grant[3] - redis.call('ZCARD', KEYS[2]) - 1", "grant[3] - 1"), porcupine.Illegal},
		{"renewal looks at no epoch", altered("heartbeat", "epoch ~= '0' and epoch ~= meta.epoch", "false"), porcupine.Illegal},
		{"reserve deletes what has lapsed", altered("reserve", "local ttl = math.ceil(presence / TICK) + 1\n", deleteLapsed), porcupine.Illegal},
		{"release takes every lease of the job", redisstore.Releasing(releaseByJob), porcupine.Illegal},
		{"a loser's release frees the winner's lease", redisstore.Releasing(releaseTheOther), porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			all := schedulers(t, url, c.instead)
			history := recordHistory(t, all, 4, 1+len(silences))
			if !slices.ContainsFunc(all, func(s tappedStore) bool { return s.tap.Replaced() > 0 }) {
				t.Fatal("nothing was changed")
			}
			f := checkHistory(history)
			t.Logf("%d operations, %d leases lapsed: %s %s", len(history), f.lapsed, f.result, f.trouble)
			if f.result != c.want {
				t.Errorf("%s, want %s", f.result, c.want)
			}
		})
	}
}

const deleteLapsed = `local ttl = math.ceil(presence / TICK) + 1
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', (tick + 1) * AGES * CODES))
`

// A release that goes by the job and not by the token. It answers as if it had done the right thing.
const releaseByJob = `
local own = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
local job = string.match(ARGV[1], '^[^|]*|[^|]*|')
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if string.sub(member, 1, #job) == job then redis.call('ZREM', KEYS[1], member) end
end
return own`

// A release that hits the other's lease when two hold one for the same job.
const releaseTheOther = `
local job = string.match(ARGV[1], '^[^|]*|[^|]*|')
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if member ~= ARGV[1] and string.sub(member, 1, #job) == job then return redis.call('ZREM', KEYS[1], member) end
  end
end
return redis.call('ZREM', KEYS[1], ARGV[1])`

// finding is what the checker says of a history.
type finding struct {
	result   porcupine.CheckResult
	trouble  string         // of the first node for which there is no order
	overlaps int            // calls that were made while another was
	lapsed   int            // leases that stopped counting because of the time
	answers  map[string]int // of each kind
}

// checkHistory looks for an order of each node's calls.
func checkHistory(history []porcupine.Operation) *finding {
	f := &finding{result: porcupine.Ok, answers: make(map[string]int)}
	model := ledgerModel()
	parts := model.Partition(history)
	model.Partition = nil
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			result, info := porcupine.CheckOperationsVerbose(model, part, checkWithin)
			orders := append(info.PartialLinearizationsOperations()[0], nil)
			longest := slices.MaxFunc(orders, func(a, b []porcupine.Operation) int { return len(a) - len(b) })
			mu.Lock()
			defer mu.Unlock()
			f.replay(longest)
			f.overlaps += overlaps(part)
			if result != porcupine.Ok && f.result != porcupine.Illegal {
				f.result, f.trouble = result, trouble(part, longest)
			}
		})
	}
	wg.Wait()
	return f
}

// replay goes through calls in the order that was found and counts.
func (f *finding) replay(order []porcupine.Operation) {
	b := new(ledger)
	for _, o := range order {
		q, a := o.Input.(*request), o.Output.(*answer)
		for i := range b.leases {
			if s := &b.leases[i]; a.now > 0 && s.lives(b.now) && !s.lives(a.now) {
				f.lapsed++
			}
		}
		b.now = max(b.now, a.now)
		b.step(q, a)
		switch q.kind {
		case doReserve, doRenew:
			f.answers[fmt.Sprintf("%s %s", q.kind, a.verdict)]++
		case doCommit, doRelease, doRemove:
			f.answers[fmt.Sprintf("%s %t", q.kind, a.yes)]++
		default:
			f.answers[q.kind.String()]++
		}
	}
}

// trouble tells which call has no place: the first to return of those that are not in the longest order.
func trouble(part, order []porcupine.Operation) string {
	placed := make(map[*answer]bool, len(order))
	for _, o := range order {
		placed[o.Output.(*answer)] = true
	}
	var stuck *porcupine.Operation
	for i := range part {
		if o := &part[i]; !placed[o.Output.(*answer)] && (stuck == nil || o.Return < stuck.Return) {
			stuck = o
		}
	}
	if stuck == nil {
		return "no order was found in time"
	}
	q, got := stuck.Input.(*request), stuck.Output.(*answer)
	b := new(ledger)
	for _, o := range order { // until the moment it was carried out
		given := o.Output.(*answer)
		if got.now > 0 && given.now > got.now {
			break
		}
		b.now = max(b.now, given.now)
		b.step(o.Input.(*request), given)
	}
	before := fmt.Sprintf("%+v", *b)
	want := b.step(q, got)
	return fmt.Sprintf("after %d of %d calls: %s: %s, want about %s; before it %s", len(order), len(part), q, got, &want, before)
}

// overlaps counts the calls that were made before an earlier one had returned.
func overlaps(part []porcupine.Operation) int {
	ops := slices.SortedFunc(slices.Values(part), func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	n, last := 0, int64(0)
	for _, o := range ops {
		if o.Call < last {
			n++
		}
		last = max(last, o.Return)
	}
	return n
}

func (f *finding) census() string {
	var lines []string
	for what, n := range f.answers {
		lines = append(lines, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
