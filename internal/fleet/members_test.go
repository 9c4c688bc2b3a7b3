package fleet

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// snapshot is one version of a list with the slice that it must always equal.
type snapshot struct {
	list *Members
	want []Member
}

// check compares a list with its model, by every way to read it.
func (e *snapshot) check() error {
	if e.list.Len() != len(e.want) {
		return fmt.Errorf("Len() = %d, want %d", e.list.Len(), len(e.want))
	}
	if got := slices.Collect(e.list.All()); !slices.Equal(got, e.want) {
		return fmt.Errorf("All() differs (-want +got):\n%s", cmp.Diff(names(e.want), names(got)))
	}
	for i, want := range e.want {
		if got := e.list.At(i); got != want {
			return fmt.Errorf("At(%d) = %s, want %s", i, nameOf(got), nameOf(want))
		}
	}
	return nil
}

func nameOf(m Member) string { return fmt.Sprintf("%s@%d", m.ID(), m.Revision) }

func names(list []Member) []string {
	var all []string
	for _, m := range list {
		all = append(all, nameOf(m))
	}
	return all
}

func testMember(i int) Member {
	return Member{Node: &Node{id: core.NodeID(fmt.Sprintf("n%04d", i))}, Revision: core.Revision(i)}
}

// membersByWith returns a list that was extended one by one.
func membersByWith(size int) snapshot {
	e := snapshot{list: &Members{}}
	for i := range size {
		m := testMember(i)
		e.list = e.list.with(m)
		e.want = append(e.want, m)
	}
	return e
}

// membersByAppend returns a list as a scan makes it. Its last chunk has spare capacity, which two successors of one list
// must not share.
func membersByAppend(size int) snapshot {
	f := New(presence)
	for i := range size {
		f.Update(status(declared(core.NodeID(fmt.Sprintf("n%04d", i)))))
	}
	list := f.Pool(direction("en", "de"), false).Members()
	return snapshot{list: list, want: slices.Collect(list.All())}
}

// The sizes at which a chunk becomes full, overflows and becomes empty.
var sizes = []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 2*chunkSize - 1, 2 * chunkSize, 2*chunkSize + 1}

func TestMembersEqualASlice(t *testing.T) {
	t.Parallel()
	var starts []snapshot
	for _, size := range sizes {
		starts = append(starts, membersByWith(size), membersByAppend(size))
	}
	rapid.Check(t, func(t *rapid.T) {
		editions := []snapshot{rapid.SampledFrom(starts).Draw(t, "start")}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			// Any edition may be continued, not only the newest: a reader may hold any of them.
			from := editions[rapid.IntRange(0, len(editions)-1).Draw(t, "from")]
			editions = append(editions, successorOf(t, &from, testMember(9000+step)))
		}
		for i := range editions {
			if err := editions[i].check(); err != nil {
				t.Fatalf("edition %d of %d: %v", i, len(editions), err)
			}
		}
	})
}

// successorOf makes one change to a list and to its model.
func successorOf(t *rapid.T, from *snapshot, newcomer Member) snapshot {
	list, want := from.list, slices.Clone(from.want)
	change := "with"
	if len(want) > 0 {
		change = rapid.SampledFrom([]string{"with", "without", "replace"}).Draw(t, "change")
	}
	if change == "with" {
		return snapshot{list.with(newcomer), append(want, newcomer)}
	}
	// Both ends are where chunks come and go.
	last := len(want) - 1
	i := rapid.OneOf(rapid.Just(last), rapid.Just(0), rapid.IntRange(0, last)).Draw(t, "place")
	if change == "replace" {
		want[i] = newcomer
		return snapshot{list.replace(i, newcomer), want}
	}
	want[i] = want[last]
	return snapshot{list.without(i), want[:last]}
}

// TestMembersShrinkToNothingAndGrowAgain crosses every chunk boundary in both directions.
func TestMembersShrinkToNothingAndGrowAgain(t *testing.T) {
	t.Parallel()
	for _, start := range []struct {
		name string
		from snapshot
	}{
		{"grown", membersByWith(2*chunkSize + 1)},
		{"gathered", membersByAppend(2*chunkSize + 1)},
	} {
		t.Run(start.name, func(t *testing.T) {
			t.Parallel()
			now := snapshot{start.from.list, slices.Clone(start.from.want)}
			for i := len(now.want); i > 0; i-- {
				// From the front, the middle and the end in turn.
				place := []int{0, (i - 1) / 2, i - 1}[i%3]
				now.want[place] = now.want[i-1]
				now = snapshot{now.list.without(place), now.want[:i-1]}
				if slices.Contains(sizes, i-1) {
					if err := now.check(); err != nil {
						t.Fatalf("shrunk to %d: %v", i-1, err)
					}
				}
			}
			for i := range 2*chunkSize + 1 {
				m := testMember(i)
				now = snapshot{now.list.with(m), append(now.want, m)}
				if slices.Contains(sizes, i+1) {
					if err := now.check(); err != nil {
						t.Fatalf("grown to %d: %v", i+1, err)
					}
				}
			}
			if err := start.from.check(); err != nil {
				t.Errorf("the list it began with has changed: %v", err)
			}
		})
	}
}

func TestMembersIterationCanStop(t *testing.T) {
	t.Parallel()
	seen := 0
	for range membersByWith(chunkSize + 1).list.All() {
		if seen++; seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Errorf("iterated over %d members, want 3", seen)
	}
}
