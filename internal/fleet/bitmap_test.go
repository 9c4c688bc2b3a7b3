package fleet

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestBitmapEqualsASet compares a bitmap, and a column, with a set of slots after any changes.
func TestBitmapEqualsASet(t *testing.T) {
	t.Parallel()
	slot := rapid.OneOf(
		rapid.Uint32Range(0, 200),
		rapid.SampledFrom([]uint32{wordBits - 1, wordBits, chunkSlots - 1, chunkSlots, 2*chunkSlots - 1, 3 * chunkSlots}),
		rapid.Uint32Range(0, 4*chunkSlots))
	rapid.Check(t, func(t *rapid.T) {
		var b bitmap
		c := newColumn()
		set := make(map[uint32]bool)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			s, on := slot.Draw(t, "slot"), rapid.IntRange(0, 3).Draw(t, "kind") > 0
			if changed := b.set(s, on); changed == (set[s] == on) {
				t.Fatalf("set(%d, %v) = %v", s, on, changed)
			}
			if set[s] = on; !on {
				delete(set, s)
			}
			if empty := c.set(s, on); empty != (len(set) == 0) {
				t.Fatalf("the column is empty: %v; it has %d slots", empty, len(set))
			}
		}
		want := make([]uint32, 0, len(set))
		for s := range set {
			want = append(want, s)
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, append(make([]uint32, 0), slices.Collect(b.all())...)); diff != "" {
			t.Fatalf("all (-want +got):\n%s", diff)
		}
		if b.len() != len(want) {
			t.Fatalf("len() = %d, want %d", b.len(), len(want))
		}
		for i, s := range want {
			if got, ok := b.at(i); !ok || got != s || !b.has(s) {
				t.Fatalf("at(%d) = %d, %v, want %d; has: %v", i, got, ok, s, b.has(s))
			}
		}
		if _, ok := b.at(len(want)); ok {
			t.Fatal("there is one more than there should be")
		}
		for chunk := range 5 {
			var fromBitmap, fromColumn words
			b.or(&fromBitmap, chunk)
			c.or(&fromColumn, chunk)
			if fromBitmap != fromColumn {
				t.Fatalf("chunk %d of the column differs", chunk)
			}
		}
	})
}
