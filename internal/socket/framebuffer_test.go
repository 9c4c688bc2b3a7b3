package socket

import (
	"testing"

	"pgregory.net/rapid"
)

// TestDropEndsAtAFrame: what the network was given comes to the end of its frame, and no further frame is left.
func TestDropEndsAtAFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var o outbox
		for _, size := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 125, 126, 30_000, chunk, 70_000, 3 * chunk}), 1, 20).Draw(t, "sizes") {
			o.add(opBinary, make([]byte, size))
		}
		ends := append([]int(nil), o.ends...)
		given := 0 // the network was given all before this
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			given += len(o.hand())
		}
		o.drop()
		want := 0
		for _, end := range ends {
			if want < given {
				want = end
			}
		}
		if len(o.data) != want || o.bytes() < 0 || o.frames() < 0 {
			t.Fatalf("%d bytes were given and %d are left; want %d, of %v", given, len(o.data), want, ends)
		}
		for b := o.hand(); len(b) > 0; b = o.hand() {
			given += len(b)
		}
		if given != want || o.bytes() != 0 || o.frames() != 0 {
			t.Fatalf("%d bytes were written; want %d; %d frames are left", given, want, o.frames())
		}
	})
}
