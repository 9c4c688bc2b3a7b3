package stats

import (
	"strconv"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// kind is what nodes with equal capabilities have in common. A fleet has many nodes and few kinds, so a request compares capabilities once
// for each kind.
type kind struct {
	capability *core.Capability // of one of the nodes
	langs      core.LangSet     // for any step
	key        string

	snapshot int64 // the number of the last snapshot that has it; only who makes snapshots uses this and the next
	number   int32 // of the kind in that snapshot
}

// kinds are the kinds of nodes that are in use.
type kinds struct {
	byKey    map[string]*kind
	snapshot int64
	inUse    []*kind // of the snapshot that is being made
	buf      []byte
}

// begin begins a snapshot.
func (k *kinds) begin() {
	k.snapshot++
	k.inUse = make([]*kind, 0, len(k.inUse))
}

// use returns the number of a kind in the snapshot that is being made.
func (k *kinds) use(one *kind) int32 {
	if one.snapshot != k.snapshot {
		one.snapshot, one.number = k.snapshot, int32(len(k.inUse))
		k.inUse = append(k.inUse, one)
	}
	return one.number
}

// end forgets the kinds that are not in the snapshot.
func (k *kinds) end() {
	k.byKey = make(map[string]*kind, len(k.inUse))
	for _, one := range k.inUse {
		k.byKey[one.key] = one
	}
}

// of returns the kind of a capability.
func (k *kinds) of(c *core.Capability) *kind {
	k.buf = appendKey(k.buf[:0], c)
	if one := k.byKey[string(k.buf)]; one != nil {
		return one
	}
	langs := make([]core.Lang, 0, len(c.Semantic)+len(c.ASR)+len(c.TTS)+2*len(c.Pairs))
	langs = append(append(append(langs, c.Semantic...), c.ASR...), c.TTS...)
	for _, d := range c.Pairs {
		langs = append(langs, d.Src, d.Tgt)
	}
	one := &kind{capability: c, langs: core.NewLangSet(langs...), key: string(k.buf)}
	if k.byKey == nil {
		k.byKey = make(map[string]*kind)
	}
	k.byKey[one.key] = one
	return one
}

// appendKey appends a text that only capabilities have which match the same requests and have the same services installed.
func appendKey(b []byte, c *core.Capability) []byte {
	text := func(s string) { b = append(append(strconv.AppendInt(b, int64(len(s)), 10), ':'), s...) }
	for _, set := range []core.LangSet{c.Semantic, c.ASR, c.TTS} {
		b = strconv.AppendInt(b, int64(len(set)), 10)
		b = append(b, ';')
		for _, l := range set {
			text(string(l))
		}
	}
	t := c.Types
	b = append(b, byte('0'+t.ASR), byte('0'+t.NMT), byte('0'+t.TTS), byte('0'+t.Tone), byte('0'+t.Semantic))
	b = append(strconv.AppendBool(b, c.AnyPair), ';')
	b = append(strconv.AppendInt(b, int64(len(c.Pairs)), 10), ';')
	for _, d := range c.Pairs {
		text(string(d.Src))
		text(string(d.Tgt))
	}
	for i := range c.Services {
		text(c.Services[i].ID)
		text(c.Services[i].Version)
	}
	return b
}
