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
type bitmapChunk struct {
	words [chunkWords]atomic.Uint64
	count atomic.Int32 // of the bits that are set
}

// bitmap is a set of slots. It is read without a lock while one writer changes it: a reader sees each bit as it was at some moment of the
// read. It grows by chunks and does not shrink.
type bitmap struct {
	chunks atomic.Pointer[[]*bitmapChunk] // a chunk that never had a bit is nil
	total  atomic.Int64                   // of the bits that are set
}

func (b *bitmap) load() []*bitmapChunk {
	if chunks := b.chunks.Load(); chunks != nil {
		return *chunks
	}
	return nil
}

// set sets or clears a bit and reports whether it has changed. Only the writer calls it.
func (b *bitmap) set(slot uint32, on bool) (changed bool) {
	c := b.chunk(int(slot/chunkSlots), on)
	if c == nil {
		return false
	}
	word, mask := &c.words[slot%chunkSlots/wordBits], uint64(1)<<(slot%wordBits)
	old := word.Load()
	switch {
	case on == (old&mask != 0):
		return false
	case on:
		word.Store(old | mask)
		c.count.Add(1)
		b.total.Add(1)
	default:
		word.Store(old &^ mask)
		c.count.Add(-1)
		b.total.Add(-1)
	}
	return true
}

// chunk returns a chunk; if there is none it is nil, or made.
func (b *bitmap) chunk(i int, create bool) *bitmapChunk {
	chunks := b.load()
	if i < len(chunks) && chunks[i] != nil {
		return chunks[i]
	}
	if !create {
		return nil
	}
	next := make([]*bitmapChunk, max(len(chunks), i+1))
	copy(next, chunks)
	next[i] = new(bitmapChunk)
	b.chunks.Store(&next)
	return next[i]
}

// fill sets the bits of a chunk of a bitmap that nobody reads yet.
func (b *bitmap) fill(i int, w *words) {
	count := 0
	for _, word := range w {
		count += bits.OnesCount64(word)
	}
	if count == 0 {
		return
	}
	c := b.chunk(i, true)
	for k, word := range w {
		c.words[k].Store(word)
	}
	c.count.Store(int32(count))
	b.total.Add(int64(count))
}

// clear clears all bits. Only the writer calls it.
func (b *bitmap) clear() {
	for _, c := range b.load() {
		if c == nil {
			continue
		}
		for k := range c.words {
			c.words[k].Store(0)
		}
		c.count.Store(0)
	}
	b.total.Store(0)
}

// has reports whether a bit is set.
func (b *bitmap) has(slot uint32) bool { return hasBit(b.load(), slot) }

func hasBit(chunks []*bitmapChunk, slot uint32) bool {
	i := int(slot / chunkSlots)
	return i < len(chunks) && chunks[i] != nil && chunks[i].words[slot%chunkSlots/wordBits].Load()&(1<<(slot%wordBits)) != 0
}

// len returns the number of bits that are set.
func (b *bitmap) len() int { return int(b.total.Load()) }

// at returns the slot of the i-th bit that is set; false if there are fewer.
func (b *bitmap) at(i int) (slot uint32, ok bool) { return nthSlot(b.load(), i) }

func nthSlot(chunks []*bitmapChunk, i int) (slot uint32, ok bool) {
	for k, c := range chunks {
		if c == nil {
			continue
		}
		if n := int(c.count.Load()); i >= n {
			i -= n
			continue
		}
		if at, ok := c.at(i); ok {
			return uint32(k*chunkSlots + at), true
		}
		return 0, false // bits were cleared meanwhile
	}
	return 0, false
}

// at returns the position of the i-th bit of the chunk that is set.
func (c *bitmapChunk) at(i int) (position int, ok bool) {
	for k := range c.words {
		word := c.words[k].Load()
		n := bits.OnesCount64(word)
		if i >= n {
			i -= n
			continue
		}
		return k*wordBits + nthBit(word, i), true
	}
	return 0, false
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
		for k, c := range b.load() {
			if c == nil {
				continue
			}
			for i := range c.words {
				for word := c.words[i].Load(); word != 0; word &= word - 1 {
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
	chunks := b.load()
	if i >= len(chunks) || chunks[i] == nil {
		return
	}
	for k := range w {
		w[k] |= chunks[i].words[k].Load()
	}
}

// common returns how many bits are set in both.
func (b *bitmap) common(other *bitmap) (n int) {
	others := other.load()
	for i, c := range b.load() {
		if c == nil || i >= len(others) || others[i] == nil {
			continue
		}
		for k := range c.words {
			n += bits.OnesCount64(c.words[k].Load() & others[i].words[k].Load())
		}
	}
	return n
}
