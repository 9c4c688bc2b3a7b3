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

	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

var operations = flag.Int("operations", 6000, "the minimum number of calls of TestLedgerIsLinearizable")

// checkTimeout bounds the search for a linearization of one node's calls.
const checkTimeout = time.Minute

// TestLedgerIsLinearizable runs several clients on the same nodes concurrently, with leases and presences that expire meanwhile, and
// searches an order of their calls in which every answer is that of the model. It keeps the machine busy, so it does not run in parallel
// with tests that depend on the clock.
func TestLedgerIsLinearizable(t *testing.T) {
	const rounds = 12
	nodes := (*operations + callsPerNode(rounds) - 1) / callsPerNode(rounds)
	began := time.Now()
	history := recordHistory(t, openRecordedStores(t, redistest.Start(t).URL(), nil), nodes, rounds)
	recorded := time.Since(began).Round(time.Millisecond)
	f := checkHistory(history)
	checked := time.Since(began).Round(time.Millisecond) - recorded
	t.Logf("%d operations of %d clients on %d nodes, %d of them concurrent, %d leases expired: %s (recorded in %v, checked in %v)",
		len(history), nodes*clientsPerNode, nodes, f.overlaps, f.expired, f.result, recorded, checked)
	t.Logf("answers: %s", f.summary())
	if f.result != porcupine.Ok {
		t.Errorf("the history is not linearizable: %s", f.counterexample)
	}
	if len(history) < *operations || f.expired == 0 || f.overlaps == 0 {
		t.Error("too few operations, expired leases or concurrent calls: the test proves nothing")
	}
	for _, must := range []string{
		"reserve OK", "reserve FULL", "reserve NOT_READY", "reserve STALE_EPOCH", "reserve STALE_REVISION",
		"heartbeat OK", "heartbeat STALE_EPOCH", "commit true", "commit false", "release true", "release false", "admit true", "admit false",
	} {
		if f.answers[must] == 0 {
			t.Errorf("no call was answered with %q", must)
		}
	}
}

// TestBrokenLedgersAreCaught breaks the ledger in ways in which it was broken once, and expects that the same check fails: it proves that
// TestLedgerIsLinearizable can find such errors.
func TestBrokenLedgersAreCaught(t *testing.T) {
	rewritten := func(script, passage, other string) redisstore.Rewrite {
		rewrite, err := redisstore.RewriteScript(script, passage, other)
		if err != nil {
			t.Fatal(err)
		}
		return rewrite
	}
	url := redistest.Start(t).URL()
	for _, c := range []struct {
		name    string
		rewrite redisstore.Rewrite
		want    porcupine.CheckResult
	}{
		{"only a comment is changed", rewritten("reserve", "Takes a slot", "Grants a slot"), porcupine.Ok},
		{"reserve counts expired leases", rewritten("reserve", "'ZCOUNT', KEYS[2], live, '+inf'", "'ZCARD', KEYS[2]"), porcupine.Illegal},
		{"commit accepts expired leases", rewritten("commit", "if expires <= tick or ", "if "), porcupine.Illegal},
		{"reserve ignores the epoch", rewritten("reserve", "if meta[1] ~= epoch then", "if false then"), porcupine.Illegal},
		{"reserve ignores epoch and revision in the usual case", rewritten("reserve", "grant[1] == ARGV[3] and", "grant[1] and grant[1] ~= '' and"), porcupine.Illegal},
		{"reserve ignores the leases in the usual case", rewritten("reserve", "grant[3] - redis.call('ZCARD', KEYS[2]) - 1", "grant[3] - 1"), porcupine.Illegal},
		{"heartbeat ignores the epoch", rewritten("heartbeat", "epoch ~= '0' and epoch ~= meta.epoch", "false"), porcupine.Illegal},
		{"heartbeat ignores the limit", rewritten("heartbeat", "capacity_of(meta.max, meta.admission, meta.foreign)", "meta.max - meta.foreign"), porcupine.Illegal},
		{"admit ignores the fence", rewritten("admit", "local fenced = is_fenced(KEYS[1], ARGV[2])", "local fenced = false"), porcupine.Illegal},
		{"reserve deletes expired leases", rewritten("reserve", "local ttl = math.ceil(presence / TICK) + 1\n", deleteExpired), porcupine.Illegal},
		{"release removes every lease of the job", redisstore.RewriteRelease(releaseByJob), porcupine.Illegal},
		{"release removes the lease of another token", redisstore.RewriteRelease(releaseOther), porcupine.Illegal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				all := openRecordedStores(t, url, c.rewrite)
				history := recordHistory(t, all, 4, 1+len(idleTimes))
				if !slices.ContainsFunc(all, func(s recordedStore) bool { return s.recorder.Rewritten() > 0 }) {
					t.Fatal("no command was rewritten")
				}
				f := checkHistory(history)
				t.Logf("%d operations, %d leases expired: %s %s", len(history), f.expired, f.result, f.counterexample)
				if f.result == c.want {
					return
				}
				if c.want == porcupine.Ok || try == brokenLedgerTries {
					t.Fatalf("%s, want %s", f.result, c.want)
				}
			}
		})
	}
}

// brokenLedgerTries is how many histories are recorded until one shows the error. Nearly each of them does.
const brokenLedgerTries = 40

const deleteExpired = `local ttl = math.ceil(presence / TICK) + 1
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.0f', (tick + 1) * AGES * CODES))
`

// releaseByJob releases by the job and not by the token. It answers like the correct release.
const releaseByJob = `
local own = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
local job = string.match(ARGV[1], '^[^|]*|[^|]*|')
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if string.sub(member, 1, #job) == job then redis.call('ZREM', KEYS[1], member) end
end
return own`

// releaseOther removes the lease of another token when two tokens have one for the same job.
const releaseOther = `
local job = string.match(ARGV[1], '^[^|]*|[^|]*|')
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    if member ~= ARGV[1] and string.sub(member, 1, #job) == job then return redis.call('ZREM', KEYS[1], member) end
  end
end
return redis.call('ZREM', KEYS[1], ARGV[1])`

// checkResult is the result of checking a history.
type checkResult struct {
	result         porcupine.CheckResult
	counterexample string         // the first call without a place in the linearization
	overlaps       int            // concurrent calls
	expired        int            // leases that expired
	answers        map[string]int // by kind
}

// checkHistory searches a linearization of each node's calls.
func checkHistory(history []porcupine.Operation) *checkResult {
	f := &checkResult{result: porcupine.Ok, answers: make(map[string]int)}
	model := ledgerModel()
	parts := model.Partition(history)
	model.Partition = nil
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			result, info := porcupine.CheckOperationsVerbose(model, part, checkTimeout)
			orders := append(info.PartialLinearizationsOperations()[0], nil)
			longest := slices.MaxFunc(orders, func(a, b []porcupine.Operation) int { return len(a) - len(b) })
			mu.Lock()
			defer mu.Unlock()
			f.replay(longest)
			f.overlaps += overlaps(part)
			if result != porcupine.Ok && f.result != porcupine.Illegal {
				f.result, f.counterexample = result, counterexample(part, longest)
			}
		})
	}
	wg.Wait()
	return f
}

// replay applies the calls to the model in the order of the linearization, and counts.
func (f *checkResult) replay(order []porcupine.Operation) {
	b := new(modelLedger)
	for _, o := range order {
		q, a := o.Input.(*request), o.Output.(*answer)
		for i := range b.leases {
			if s := &b.leases[i]; a.now > 0 && s.isLive(b.now) && !s.isLive(a.now) {
				f.expired++
			}
		}
		b.now = max(b.now, a.now)
		b.apply(q, a)
		switch q.kind {
		case doReserve, doHeartbeat:
			f.answers[fmt.Sprintf("%s %s", q.kind, a.verdict)]++
		case doCommit, doRelease, doRemove, doAdmit:
			f.answers[fmt.Sprintf("%s %t", q.kind, a.ok)]++
		default:
			f.answers[q.kind.String()]++
		}
	}
}

// counterexample describes the call without a place: the first one to return of those that are not in the longest partial order.
func counterexample(part, order []porcupine.Operation) string {
	placed := make(map[*answer]bool, len(order))
	for _, o := range order {
		placed[o.Output.(*answer)] = true
	}
	var misplaced *porcupine.Operation
	for i := range part {
		if o := &part[i]; !placed[o.Output.(*answer)] && (misplaced == nil || o.Return < misplaced.Return) {
			misplaced = o
		}
	}
	if misplaced == nil {
		return "no linearization was found in time"
	}
	q, got := misplaced.Input.(*request), misplaced.Output.(*answer)
	b := new(modelLedger)
	for _, o := range order { // until the time of the call
		given := o.Output.(*answer)
		if got.now > 0 && given.now > got.now {
			break
		}
		b.now = max(b.now, given.now)
		b.apply(o.Input.(*request), given)
	}
	before := fmt.Sprintf("%+v", *b)
	want := b.apply(q, got)
	return fmt.Sprintf("after %d of %d calls: %s: got %s, want %s; the state before it is %s", len(order), len(part), q, got, &want, before)
}

// overlaps counts the calls that began before an earlier one had returned.
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

func (f *checkResult) summary() string {
	var lines []string
	for what, n := range f.answers {
		lines = append(lines, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
