package socket

import (
	"testing"

	"pgregory.net/rapid"
)

// TestDropKeepsPartlyWrittenFrame: drop keeps the frame that is partly given to the network, and none after it.
func TestDropKeepsPartlyWrittenFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b frameBuffer
		for _, size := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 125, 126, 30_000, writeSize, 70_000, 3 * writeSize}), 1, 20).Draw(t, "sizes") {
			b.add(opBinary, make([]byte, size))
		}
		ends := append([]int(nil), b.ends...)
		given := 0 // bytes that were given to the network
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			given += len(b.next())
		}
		b.drop()
		want := 0
		for _, end := range ends {
			if want < given {
				want = end
			}
		}
		if len(b.data) != want || b.unsentBytes() < 0 || b.unsentFrames() < 0 {
			t.Fatalf("%d bytes were given and %d are left; want %d, of %v", given, len(b.data), want, ends)
		}
		for next := b.next(); len(next) > 0; next = b.next() {
			given += len(next)
		}
		if given != want || b.unsentBytes() != 0 || b.unsentFrames() != 0 {
			t.Fatalf("%d bytes were written; want %d; %d frames are left", given, want, b.unsentFrames())
		}
	})
}
