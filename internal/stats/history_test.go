package stats

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/health"
)

// copyOf returns what other processes would read of a value.
func copyOf[T any](t *rapid.T, v T) (c T) {
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHistoryCountsOnce: whatever the leader reads, in whatever order and however often, and whenever another leader continues from the
// stored history, every job that an instance published is counted once.
func TestHistoryCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const instances = 3
		var publications [instances][]counted // everything that each instance has published
		totals := [instances]tally{newTally(), newTally(), newTally()}
		h, saved := newHistory(), map[string][]byte{}
		now := time.Unix(1_800_000_000, 0)
		save := func() {
			parts, err := h.parts(now)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(saved, parts)
			h.stored()
		}
		read := func(i, k int) {
			h.add(core.InstanceID(fmt.Sprint("i-", i)), copyOf(t, publications[i][k]), now, newStepCounts())
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				i := rapid.IntRange(0, instances-1).Draw(t, "instance")
				name := rapid.SampledFrom([]string{"en→zh", "zh→en", "de→fr"}).Draw(t, "direction")
				totals[i].Directions.add(name, int64(rapid.IntRange(1, 5).Draw(t, "jobs")), health.MaxNames)
				publications[i] = append(publications[i], counted{Seq: uint64(len(publications[i]) + 1), Total: copyOf(t, totals[i])})
			},
			"read any": func(t *rapid.T) { // also one that was read before, or is late
				i := rapid.IntRange(0, instances-1).Draw(t, "instance")
				if len(publications[i]) > 0 {
					read(i, rapid.IntRange(0, len(publications[i])-1).Draw(t, "publication"))
				}
			},
			"save": func(*rapid.T) { save() },
			"fail to save": func(t *rapid.T) {
				if _, err := h.parts(now); err != nil {
					t.Fatal(err)
				}
			},
			"replace": func(*rapid.T) { h = decodeHistory(saved) }, // another leader, which has what was saved
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second)
			},
		})
		want := counts{}
		for i := range instances {
			if n := len(publications[i]); n > 0 {
				read(i, n-1)
			}
			for name, n := range totals[i].Directions {
				want[name] += n
			}
		}
		if diff := cmp.Diff(want, h.sum(quarters, quarters.length, now).Directions); diff != "" {
			t.Errorf("the last day (-want +got):\n%s", diff)
		}
	})
}

// TestHistoryForgets: what is older than a period is not part of it, and the ring has a bounded number of buckets.
func TestHistoryForgets(t *testing.T) {
	h, now := newHistory(), time.Unix(1_800_000_000, 0)
	total := newTally()
	for seq := range uint64(3 * 24 * 60) { // a job a minute for three days
		total.Directions["en→zh"]++
		h.add("i-1", counted{Seq: seq + 1, Total: total.since(tally{})}, now, newStepCounts())
		now = now.Add(time.Minute)
	}
	now = now.Add(-time.Minute)
	for _, c := range []struct {
		name    string
		ring    ring
		periods int64
		min     int64
		max     int64
	}{{"five minutes", minutes, 5, 5, 5}, {"hour", minutes, 60, 60, 60}, {"day", quarters, 96, 24*60 - 14, 24 * 60}} {
		if got := h.sum(c.ring, c.periods, now).Directions["en→zh"]; got < c.min || got > c.max {
			t.Errorf("the last %s has %d jobs, want %d to %d", c.name, got, c.min, c.max)
		}
	}
	if len(h.buckets) != 60+96 {
		t.Errorf("%d buckets", len(h.buckets))
	}
	if got := h.sum(quarters, quarters.length, now.Add(25*time.Hour)); got.Directions.sum() != 0 {
		t.Errorf("a day later the last day has %v", got)
	}
}

// TestTallyIsBounded: however many names there are, a tally has a bounded number of them, and counts all.
func TestTallyIsBounded(t *testing.T) {
	const names = 10_000
	total := newTally()
	for i := range names {
		total.Directions.add(fmt.Sprint("x", i), 1, health.MaxNames)
		total.Refused.add(fmt.Sprint("x", i), 1, maxRefused)
	}
	for name, c := range map[string]struct {
		counts counts
		limit  int
	}{"directions": {total.Directions, health.MaxNames}, "refused": {total.Refused, maxRefused}} {
		if len(c.counts) > c.limit+1 || c.counts.sum() != names || c.counts[health.Other] != int64(names-c.limit) {
			t.Errorf("%s: %d names with a sum of %d, of these others %d", name, len(c.counts), c.counts.sum(), c.counts[health.Other])
		}
	}
	listed, rest := total.Directions.largest(10)
	if len(listed) != 10 || rest != names-10 {
		t.Errorf("the largest are %v, and %d others", listed, rest)
	}
}

// TestHistoryOfAnotherVersion: parts that cannot be read are left out, and no part can make a later step fail.
func TestHistoryOfAnotherVersion(t *testing.T) {
	for _, body := range []string{"", "null", "[]", `"x"`, "{}", `{"index":"x"}`, `{"tally":null}`, `{"index":1,"tally":{"directions":null}}`} {
		h := decodeHistory(map[string][]byte{"m0": []byte(body), "q5": []byte(body), countedPart: []byte(body), "unknown": []byte(body)})
		now := time.Unix(60, 0)
		total := newTally()
		total.Directions["en→zh"] = 1
		h.add("i-1", counted{Seq: 1, Total: total}, now, newStepCounts())
		if got := h.sum(minutes, 1, now).Directions["en→zh"]; got != 1 {
			t.Errorf("after %q: %d", body, got)
		}
		if _, err := h.parts(now); err != nil {
			t.Errorf("after %q: %v", body, err)
		}
	}
}
