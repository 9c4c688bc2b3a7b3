package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// shardedCluster is a Redis Cluster with three instances, each with nodes and sessions.
type shardedCluster struct {
	redis     *redistest.Cluster
	primaries []*redistest.Server
	nodes     int // of each instance
	instances []*instance
	fleet     *nodeFleet
	sessions  []*testSession
}

// startSharded starts a number of nodes and sessions on each of three instances. There are more slots than sessions, so
// that a free slot is found at once. Nodes send ten times as many heartbeats as by default.
func startSharded(tb testing.TB, nodes, sessions int) *shardedCluster {
	tb.Helper()
	t := &shardedCluster{redis: redistest.StartCluster(tb).WithoutFailover(), nodes: nodes}
	t.primaries = t.redis.Primaries()
	t.instances = startInstances(tb, t.redis.URL(), 3, heartbeatVariable+"=500")
	t.fleet = startNodes(tb, t.instances, t.instances, nodes, 16)
	for _, i := range t.instances {
		t.sessions = append(t.sessions, startSessions(tb, i, sessions)...)
	}
	return t
}

// keysByPrimary returns all keys of each primary.
func (t *shardedCluster) keysByPrimary(tb testing.TB) [][]string {
	tb.Helper()
	all := make([][]string, len(t.primaries))
	for n, master := range t.primaries {
		reply, err := master.Do("KEYS", "*")
		if err != nil {
			tb.Fatal(err)
		}
		list, _ := reply.([]any)
		for _, key := range list {
			all[n] = append(all[n], fmt.Sprint(key))
		}
	}
	return all
}

// fullestSlot returns the slot with the most keys, and their number.
func (t *shardedCluster) fullestSlot(keys [][]string) (slot, maxKeys int) {
	count := make(map[int]int)
	for _, key := range slices.Concat(keys...) {
		s := slotOf(key)
		if count[s]++; count[s] > maxKeys {
			slot, maxKeys = s, count[s]
		}
	}
	return slot, maxKeys
}

// slotOf returns the slot of a key, by the rule of Redis Cluster. A test compares it with Redis.
func slotOf(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % 16384
}

// keyUse is the number of commands on a key.
type keyUse struct {
	key      string
	commands int
}

// byUse sorts the keys by the number of commands, largest first.
func byUse(keys map[string]int) []keyUse {
	list := make([]keyUse, 0, len(keys))
	for key, n := range keys {
		list = append(list, keyUse{key, n})
	}
	slices.SortFunc(list, func(a, b keyUse) int {
		return cmp.Or(cmp.Compare(b.commands, a.commands), strings.Compare(a.key, b.key))
	})
	return list
}

// The maximum share of a key in all commands that have one.
//
// An instance has one inbox and one presence, whatever its load. An utterance whose node is on another instance takes two
// messages, and a message at most six commands on an inbox: twelve of about 46. With three inboxes these are 9 % for each,
// if every utterance is of that kind; the share falls with the number of instances. All other keys are as many as there are
// nodes, sessions or jobs, and 16 hold when nodes were last seen, so that none should stand out.
const (
	maxInstanceShare = 0.09
	maxOtherShare    = 0.02
)

// isInstanceKey reports whether a key belongs to an instance.
func isInstanceKey(key string) bool { return strings.Contains(key, "{instance:") }

// overused lists the keys that exceed their share.
func overused(list []keyUse, all int) (over []string) {
	for _, h := range list {
		limit := maxOtherShare
		if isInstanceKey(h.key) {
			limit = maxInstanceShare
		}
		if float64(h.commands) > limit*float64(all) {
			over = append(over, fmt.Sprintf("%s has %s of the commands, want at most %.0f %%", h.key, percent(h.commands, all), 100*limit))
		}
	}
	return over
}

// BenchmarkSpread loads a Redis Cluster and prints where the keys are and which are used most.
func BenchmarkSpread(b *testing.B) {
	for b.Loop() {
		t := startSharded(b, 50, 100)
		runUtterances(b, t.fleet, t.sessions, 8, 0)
		used, all, sent := t.runOneSecond(b)
		keys := t.keysByPrimary(b)
		total := len(slices.Concat(keys...))
		rows := [][]string{{"primary", "keys", "share"}}
		for n := range keys {
			rows = append(rows, []string{fmt.Sprint(n), fmt.Sprint(len(keys[n])), percent(len(keys[n]), total)})
		}
		slot, maxKeys := t.fullestSlot(keys)
		rows = append(rows, []string{fmt.Sprintf("slot %d", slot), fmt.Sprint(maxKeys), percent(maxKeys, total)})
		printTable(fmt.Sprintf("Distribution of %d keys, and the slot with the most", total), rows)
		rows = [][]string{{"key", "commands", "share"}}
		list := byUse(used)
		for _, h := range list[:5] {
			rows = append(rows, []string{h.key, fmt.Sprint(h.commands), percent(h.commands, all)})
		}
		other := slices.IndexFunc(list, func(h keyUse) bool { return !isInstanceKey(h.key) })
		rows = append(rows, []string{"the first that is no instance key: " + list[other].key, fmt.Sprint(list[other].commands), percent(list[other].commands, all)})
		printTable(fmt.Sprintf("%d commands of %d utterances in a second by key, of %d keys", all, sent, len(used)), rows)
		for _, over := range overused(list, all) {
			b.Error(over)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// runOneSecond has all sessions send utterances for a second, and returns the commands by key.
func (t *shardedCluster) runOneSecond(b *testing.B) (keys map[string]int, all, sent int) {
	m := startKeyCounter(b, t.primaries)
	var mu sync.Mutex
	var running sync.WaitGroup
	began := time.Now()
	for _, session := range t.sessions {
		running.Go(func() {
			for time.Since(began) < time.Second {
				if _, err := session.sendUtterance(t.fleet); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				sent++
				mu.Unlock()
			}
		})
	}
	running.Wait()
	keys, all = m.total(b)
	return keys, all, sent
}

// The limits on the distribution of keys. Of some 600 nodes, sessions and jobs, each with a slot of its own, a third is on
// each primary, with a standard deviation of 1.9 %: five times that is allowed.
const (
	minPrimaryShare, maxPrimaryShare = 0.23, 0.44
	maxKeysPerSlot                   = 12 // a few nodes, sessions or jobs share a slot by chance
)

// markService has a node report a service as unavailable, and waits until an explanation shows the mark.
func (t *shardedCluster) markService(tb testing.TB, node string) {
	tb.Helper()
	post(tb, t.instances[0], "/v1/node/model_not_available", wire.ModelNotAvailableRequest{NodeID: node, ServiceID: "nmt"})
	marked := run.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}.Retry(tb.Context(), func() error {
		var x wire.ExplainResponse
		if err := t.instances[0].api().Post(tb.Context(), "/v1/dispatch/explain", wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es"}, &x); err != nil {
			return err // on a busy machine Redis may not answer in time
		}
		for _, n := range x.Nodes {
			if n.NodeID == node && len(n.Services) > 0 {
				return nil
			}
		}
		return errors.New("it is not marked")
	})
	if !marked {
		tb.Fatal("the test ended before the service was marked")
	}
}

// TestKeysAreSpread checks a Redis Cluster: all keys of a node, a session or a job are in one slot, the keys are spread
// over the primaries, and no key is used more than its share.
func TestKeysAreSpread(t *testing.T) {
	t.Parallel()
	w := startSharded(t, 20, 20)
	m := startKeyCounter(t, w.primaries)
	results := runUtterances(t, w.fleet, w.sessions, 8, 0)
	w.markService(t, nodeName(0, 0))
	used, all := m.total(t)
	if want := 8 * len(w.sessions); len(results) != want {
		t.Errorf("%d results, want %d", len(results), want)
	}
	list := byUse(used)
	t.Logf("%d commands; the most, %s, on %s", all, percent(list[0].commands, all), list[0].key)
	for _, over := range overused(list, all) {
		t.Error(over)
	}

	keys := w.keysByPrimary(t)
	total := len(slices.Concat(keys...))
	for n := range keys {
		t.Logf("primary %d has %d of %d keys", n, len(keys[n]), total)
		if part := float64(len(keys[n])) / float64(total); part < minPrimaryShare || part > maxPrimaryShare {
			t.Errorf("primary %d has %.2f of the keys, want %.2f to %.2f", n, part, minPrimaryShare, maxPrimaryShare)
		}
	}
	if slot, maxKeys := w.fullestSlot(keys); maxKeys > maxKeysPerSlot {
		t.Errorf("slot %d has %d keys, want at most %d", slot, maxKeys, maxKeysPerSlot)
	}
	// Some keys exist only for a short time, such as the leases of a node, so used keys count too.
	w.checkSlots(t, slices.AppendSeq(slices.Concat(keys...), maps.Keys(used)), results)
}

// isSeparateKey reports whether a key is in another slot although it names a node, because no script uses it together with
// the node's own keys.
func isSeparateKey(key string) bool {
	return strings.Contains(key, ":ratelimit:") || strings.Contains(key, ":debounce:") || strings.Contains(key, ":locks:")
}

// checkSlots checks that all keys that name a node, a session or a job are in one slot, whatever their hash tag is.
func (t *shardedCluster) checkSlots(tb testing.TB, keys []string, results []latency) {
	tb.Helper()
	named := make(map[string][]string)
	for _, key := range keys {
		if isSeparateKey(key) {
			continue
		}
		for _, word := range strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(":{}/", r) }) {
			named[word] = append(named[word], key)
		}
	}
	var ids []string
	for n := range t.instances {
		for k := range t.nodes {
			ids = append(ids, nodeName(n, k))
		}
	}
	for _, session := range t.sessions {
		ids = append(ids, session.ID())
	}
	for _, one := range results {
		ids = append(ids, one.job)
	}
	for _, id := range ids {
		if len(named[id]) == 0 {
			tb.Errorf("no key names %s", id)
			continue
		}
		for _, key := range named[id] {
			if slotOf(key) != slotOf(named[id][0]) {
				tb.Errorf("%s and %s are not in one slot", key, named[id][0])
			}
		}
	}
	for _, key := range keys[:min(len(keys), 20)] {
		if got, want := slotOf(key), t.redis.Slot(key); got != want {
			tb.Errorf("the slot of %s is %d here and %d for Redis", key, got, want)
		}
	}
}
