package fleet

import (
	"iter"
	"math/bits"
	"sync/atomic"
)

const (
	wordBits   = 64
	chunkWords = 64
	// chunkSlots is the number of slots of one chunk: of a bitmap, and of the table of nodes.
	chunkSlots = chunkWords * wordBits
)

// words are the bits of one chunk.
type words [chunkWords]uint64

// bitmapChunk has the bits of chunkSlots slots.
type bitmapChunk [chunkWords]atomic.Uint64

// bitmap is a set of slots. It is read without a lock while one writer changes it: a reader sees each bit as it was at some moment of the
// read. It grows by chunks and does not shrink.
type bitmap struct {
	directory atomic.Pointer[bitmapDirectory]
	total     atomic.Int64 // of the bits that are set
}

// bitmapDirectory has the chunks of a bitmap. A larger one replaces it when the bitmap grows; its counts are not kept up to date after
// that.
type bitmapDirectory struct {
	chunks []*bitmapChunk // one that never had a bit is nil
	// of the bits of each chunk that are set; together, so that the chunk of the n-th bit is found with few reads of memory
	counts []atomic.Int32
}

var emptyDirectory bitmapDirectory

func (b *bitmap) load() *bitmapDirectory {
	if d := b.directory.Load(); d != nil {
		return d
	}
	return &emptyDirectory
}

// chunk returns a chunk; nil if it never had a bit.
func (d *bitmapDirectory) chunk(i int) *bitmapChunk {
	if i >= len(d.chunks) {
		return nil
	}
	return d.chunks[i]
}

// set sets or clears a bit and reports whether it has changed. Only the writer calls it.
func (b *bitmap) set(slot uint32, on bool) (changed bool) {
	i := int(slot / chunkSlots)
	d := b.load()
	if d.chunk(i) == nil {
		if !on {
			return false
		}
		d = b.grow(i)
	}
	word, mask := &d.chunks[i][slot%chunkSlots/wordBits], uint64(1)<<(slot%wordBits)
	old := word.Load()
	switch {
	case on == (old&mask != 0):
		return false
	case on:
		word.Store(old | mask)
		d.counts[i].Add(1)
		b.total.Add(1)
	default:
		word.Store(old &^ mask)
		d.counts[i].Add(-1)
		b.total.Add(-1)
	}
	return true
}

// grow makes a chunk that does not exist yet.
func (b *bitmap) grow(i int) *bitmapDirectory {
	d := b.load()
	n := max(len(d.chunks), i+1)
	next := &bitmapDirectory{chunks: make([]*bitmapChunk, n), counts: make([]atomic.Int32, n)}
	copy(next.chunks, d.chunks)
	for k := range d.counts {
		next.counts[k].Store(d.counts[k].Load())
	}
	next.chunks[i] = new(bitmapChunk)
	b.directory.Store(next)
	return next
}

// fill sets the bits of a chunk of a bitmap that nobody reads yet.
func (b *bitmap) fill(i int, w *words) {
	count := w.len()
	if count == 0 {
		return
	}
	d := b.grow(i)
	for k, word := range w {
		d.chunks[i][k].Store(word)
	}
	d.counts[i].Store(int32(count))
	b.total.Add(int64(count))
}

// clear clears all bits. Only the writer calls it.
func (b *bitmap) clear() {
	d := b.load()
	for i, c := range d.chunks {
		if c == nil {
			continue
		}
		for k := range c {
			c[k].Store(0)
		}
		d.counts[i].Store(0)
	}
	b.total.Store(0)
}

// has reports whether a bit is set.
func (b *bitmap) has(slot uint32) bool {
	c := b.load().chunk(int(slot / chunkSlots))
	return c != nil && c.has(slot)
}

// has reports whether the bit of a slot is set, of which only the position in the chunk counts.
func (c *bitmapChunk) has(slot uint32) bool {
	return c[slot%chunkSlots/wordBits].Load()&(1<<(slot%wordBits)) != 0
}

// len returns the number of bits that are set.
func (b *bitmap) len() int { return int(b.total.Load()) }

// at returns the slot of the i-th bit that is set; false if there are fewer.
func (b *bitmap) at(i int) (slot uint32, ok bool) {
	d := b.load()
	for k := range d.counts {
		if n := int(d.counts[k].Load()); i >= n {
			i -= n
			continue
		}
		at, ok := d.chunks[k].at(i)
		return uint32(k*chunkSlots + at), ok // none if bits were cleared meanwhile
	}
	return 0, false
}

// at returns the position of the i-th bit of the chunk that is set; false if there are fewer.
func (c *bitmapChunk) at(i int) (position int, ok bool) {
	for k := range c {
		word := c[k].Load()
		n := bits.OnesCount64(word)
		if i >= n {
			i -= n
			continue
		}
		return k*wordBits + nthBit(word, i), true
	}
	return 0, false
}

// at returns the position of the i-th bit that is set; false if there are fewer.
func (w *words) at(i int) (position int, ok bool) {
	for k, word := range w {
		n := bits.OnesCount64(word)
		if i >= n {
			i -= n
			continue
		}
		return k*wordBits + nthBit(word, i), true
	}
	return 0, false
}

// len returns the number of bits that are set.
func (w *words) len() (n int) {
	for _, word := range w {
		n += bits.OnesCount64(word)
	}
	return n
}

// nthBit returns the position of the i-th bit of a word that is set. The word has more than i of them.
func nthBit(word uint64, i int) (position int) {
	for width := wordBits / 2; width > 0; width /= 2 {
		if n := bits.OnesCount64(word & (1<<width - 1)); i >= n {
			i -= n
			word >>= width
			position += width
		}
	}
	return position
}

// all iterates over the slots whose bits are set, in ascending order.
func (b *bitmap) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for k, c := range b.load().chunks {
			if c == nil {
				continue
			}
			for i := range c {
				for word := c[i].Load(); word != 0; word &= word - 1 {
					if !yield(uint32(k*chunkSlots + i*wordBits + bits.TrailingZeros64(word))) {
						return
					}
				}
			}
		}
	}
}

// or adds the bits of a chunk to w.
func (b *bitmap) or(w *words, i int) {
	c := b.load().chunk(i)
	if c == nil {
		return
	}
	for k := range w {
		w[k] |= c[k].Load()
	}
}

// common returns how many bits are set in both.
func (b *bitmap) common(other *bitmap) (n int) {
	others := other.load()
	for i, c := range b.load().chunks {
		o := others.chunk(i)
		if c == nil || o == nil {
			continue
		}
		for k := range c {
			n += bits.OnesCount64(c[k].Load() & o[k].Load())
		}
	}
	return n
}
