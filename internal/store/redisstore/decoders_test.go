package redisstore

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// FuzzDecoders: no text that is stored makes a decoder panic. FuzzDecodeRecord is that of the records of jobs.
func FuzzDecoders(f *testing.F) {
	for _, seed := range []string{
		"", "1", "-7", "garbage", "18446744073709551616", "+inf", "nan", "all failing 1 2 3", "1@2|3|4|0.1 0.2 0.3", "3:asr1", "-1:asr", "9999999999999999999:a",
		"1:2:3", "c|t|1|2|i|w", "job|1|token", `{"health":"ready","max":3}`, "z{}\n", `1 0 {"kind":"key","name":"k"}`, "1526919030474-55", "\x00\x00\x00\x00\x00\x00\xf8\x7f",
	} {
		f.Add(seed, seed)
	}
	s := &Store{timing: store.Timing{ReservedTTL: time.Second}}
	f.Fuzz(func(_ *testing.T, a, b string) {
		s.decodeLeases("n", []string{a, b, b, a, a}, time.Now().UnixMilli())
		_, _ = decodeNode("n", nodeFields{a, b, a, b, a, b}, a)
		_ = decodeDigest(store.LastSeen{Node: core.NodeID(b)}, a)
		_ = decodeLoad(a)
		_ = decodeLastSeen([]string{a, b, a}, 1)
		_ = decodeCancels([]string{a, b})
		_, _ = decodeRevocation(a)
		_ = markOf(core.NodeID(b), map[string]string{markField: a, markForField: b, markEpochField: a, markVersionField: b})
		_ = parseWaiter(a)
		_ = numbers(a, 8)
		_ = idBefore(a, b)
		_ = compareEntryIDs(a, b)
		_ = ageOfEntry(a, 1)
		_ = parseReplicas(parseInfo(a + "\n" + b))
	})
}

// TestShapesOfReplies: the notation of shapes is read as it is described. TestMalformedValues compares the replies of all scripts with
// them.
func TestShapesOfReplies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct{ parts, first, repeated int }{
		"": {0, 0, 0}, "iit": {3, 3, 0}, "i|(tt)T": {3, 1, 0}, "ii*t": {3, 2, 1}, "(*ttti)": {1, 1, 0}, "i*(t?tT)": {2, 1, 1}, "?t": {1, 1, 0},
	} {
		if s := shapeOf(text); len(s.parts) != want.parts || s.first != want.first || s.repeated != want.repeated {
			t.Errorf("%q has %d parts, %d at least, %d repeated; want %+v", text, len(s.parts), s.first, s.repeated, want)
		}
	}
}
