package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// town is a Redis Cluster with instances, and nodes and sessions with each of them.
type town struct {
	redis    *redistest.Cluster
	masters  []*redistest.Server
	nodes    int // with each instance
	all      []*instance
	crew     *crew
	speakers []*speaker
}

// found starts one with so many nodes and sessions at each of three instances. There are more slots than sessions, so
// that nobody has to look for a free one. Nodes send ten times as many heartbeats as they usually do.
func found(tb testing.TB, nodes, sessions int) *town {
	tb.Helper()
	t := &town{redis: redistest.StartCluster(tb), nodes: nodes}
	t.masters = t.redis.Primaries()
	t.all = start(tb, t.redis.URL(), 3, beatEvery+"=500")
	t.crew = hire(tb, t.all, t.all, nodes, 16)
	for _, i := range t.all {
		t.speakers = append(t.speakers, gather(tb, i, sessions)...)
	}
	return t
}

// keys are all keys, by the master that has them.
func (t *town) keys(tb testing.TB) [][]string {
	tb.Helper()
	all := make([][]string, len(t.masters))
	for n, master := range t.masters {
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

// crowded is the slot that has most keys, and how many.
func (t *town) crowded(keys [][]string) (slot, most int) {
	count := make(map[int]int)
	for _, key := range slices.Concat(keys...) {
		s := slotOf(key)
		if count[s]++; count[s] > most {
			slot, most = s, count[s]
		}
	}
	return slot, most
}

// slotOf is the slot of a key, by the rule of Redis Cluster. A test holds it against Redis.
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

// heat is what was done with a key.
type heat struct {
	key string
	n   int
}

// hottest are the keys with which most was done.
func hottest(keys map[string]int) []heat {
	list := make([]heat, 0, len(keys))
	for key, n := range keys {
		list = append(list, heat{key, n})
	}
	slices.SortFunc(list, func(a, b heat) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.key, b.key)) })
	return list
}

// What a key may have of all commands that have one.
//
// An instance has one inbox and one presence, however much it does. An utterance whose node is with another instance is two
// letters, and a letter at most six commands on an inbox: twelve of about 46. Over three inboxes that is 9 % each if
// every utterance is such a one; it falls with every further instance. Of everything else there are as many keys as nodes, sessions
// or jobs, and 16 for who was heard, so that none should stand out.
const (
	mostOfInstance = 0.09
	mostOfOther    = 0.02
)

// ofInstance tells the keys of instances from all others.
func ofInstance(key string) bool { return strings.Contains(key, "{instance:") }

// tooHot names the keys that have more than they may.
func tooHot(list []heat, all int) (hot []string) {
	for _, h := range list {
		most := mostOfOther
		if ofInstance(h.key) {
			most = mostOfInstance
		}
		if float64(h.n) > most*float64(all) {
			hot = append(hot, fmt.Sprintf("%s has %s of the commands, want at most %.0f %%", h.key, share(h.n, all), 100*most))
		}
	}
	return hot
}

// BenchmarkSpread loads a Redis Cluster and prints where the keys are and which are used most.
func BenchmarkSpread(b *testing.B) {
	for b.Loop() {
		t := found(b, 50, 100)
		converse(b, t.crew, t.speakers, 8, 0)
		heard, all, said := t.second(b)
		keys := t.keys(b)
		total := len(slices.Concat(keys...))
		rows := [][]string{{"master", "keys", "share"}}
		for n := range keys {
			rows = append(rows, []string{fmt.Sprint(n), fmt.Sprint(len(keys[n])), share(len(keys[n]), total)})
		}
		slot, most := t.crowded(keys)
		rows = append(rows, []string{fmt.Sprintf("slot %d", slot), fmt.Sprint(most), share(most, total)})
		table(fmt.Sprintf("Where %d keys are, and the slot that has most", total), rows)
		rows = [][]string{{"key", "commands", "share"}}
		list := hottest(heard)
		for _, h := range list[:5] {
			rows = append(rows, []string{h.key, fmt.Sprint(h.n), share(h.n, all)})
		}
		other := slices.IndexFunc(list, func(h heat) bool { return !ofInstance(h.key) })
		rows = append(rows, []string{"the first of no instance: " + list[other].key, fmt.Sprint(list[other].n), share(list[other].n, all)})
		table(fmt.Sprintf("%d commands of %d utterances in a second by key, of %d keys", all, said, len(heard)), rows)
		for _, hot := range tooHot(list, all) {
			b.Error(hot)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// second has everybody speak for a second, and returns the commands by key.
func (t *town) second(b *testing.B) (keys map[string]int, all, said int) {
	m := listen(b, t.masters)
	var mu sync.Mutex
	var speaking sync.WaitGroup
	began := time.Now()
	for _, p := range t.speakers {
		speaking.Go(func() {
			for time.Since(began) < time.Second {
				if _, err := p.say(t.crew); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				said++
				mu.Unlock()
			}
		})
	}
	speaking.Wait()
	keys, all = m.total(b, t.masters)
	return keys, all, said
}

// Where keys may be. Of some 600 things, each with a slot of its own, a third is on each master, give or take 1.9 in a
// hundred: five times that is allowed.
const (
	leastOfMaster, mostOfMaster = 0.23, 0.44
	mostInSlot                  = 12 // keys: a few things that meet by chance
)

// TestSpread: on a Redis Cluster all keys of a node, a session or a job are in one slot, the keys are spread over the
// masters, and no key is used more than its share.
func TestSpread(t *testing.T) {
	t.Parallel()
	w := found(t, 20, 20)
	m := listen(t, w.masters)
	trips := converse(t, w.crew, w.speakers, 8, 0)
	post(t, w.all[0], "/v1/node/model_not_available", wire.ModelNotAvailableRequest{NodeID: nodeName(0, 0), ServiceID: "nmt"}, nil)
	heard, all := m.total(t, w.masters)
	if want := 8 * len(w.speakers); len(trips) != want {
		t.Errorf("%d results, want %d", len(trips), want)
	}
	list := hottest(heard)
	t.Logf("%d commands; most of them, %s, on %s", all, share(list[0].n, all), list[0].key)
	for _, hot := range tooHot(list, all) {
		t.Error(hot)
	}

	keys := w.keys(t)
	total := len(slices.Concat(keys...))
	for n := range keys {
		t.Logf("master %d has %d of %d keys", n, len(keys[n]), total)
		if part := float64(len(keys[n])) / float64(total); part < leastOfMaster || part > mostOfMaster {
			t.Errorf("master %d has %.2f of the keys, want %.2f to %.2f", n, part, leastOfMaster, mostOfMaster)
		}
	}
	if slot, most := w.crowded(keys); most > mostInSlot {
		t.Errorf("slot %d has %d keys, want at most %d", slot, most, mostInSlot)
	}
	// Some keys are there only for a moment, as the leases of a node that has work: what was used counts too.
	w.together(t, slices.AppendSeq(slices.Concat(keys...), maps.Keys(heard)), trips)
}

// apart reports whether a key stands alone although it names a node: nothing is done with it and the node's own keys in
// one step.
func apart(key string) bool {
	return strings.Contains(key, ":ratelimit:") || strings.Contains(key, ":debounce:") || strings.Contains(key, ":locks:")
}

// together checks that all keys that name a node, a session or a job are in one slot, whatever is in their braces.
func (t *town) together(tb testing.TB, keys []string, trips []trip) {
	tb.Helper()
	named := make(map[string][]string)
	for _, key := range keys {
		if apart(key) {
			continue
		}
		for _, word := range strings.FieldsFunc(key, func(r rune) bool { return strings.ContainsRune(":{}/", r) }) {
			named[word] = append(named[word], key)
		}
	}
	var ids []string
	for n := range t.all {
		for k := range t.nodes {
			ids = append(ids, nodeName(n, k))
		}
	}
	for _, p := range t.speakers {
		ids = append(ids, p.s.ID())
	}
	for _, one := range trips {
		ids = append(ids, one.id)
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
