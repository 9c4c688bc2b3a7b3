package pools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Setting is the division at one generation, as the store has it. The generation grows with every change.
type Setting struct {
	Generation int64  // 0: it was never published, or the store has lost it
	Digest     string // of the body: a store that was emptied counts generations from the start
	Body       []byte // nil in an answer that it is the known one
	// Digests are those of the bodies that were in force before, the oldest first, and at the end that of this one.
	Digests []string

	version string // of the value in the store
}

const (
	// maxDigests is how many digests of a setting are kept.
	maxDigests = 64
	// maxGeneration is more than any setting has: earlier versions of this program count in Lua, which keeps the digits of smaller numbers.
	maxGeneration = 1 << 53
)

// settingKey is where the store has the setting, and these are its parts: every version of this program reads them.
var settingKey = store.ValueKey{Kind: store.SettingValue, Name: settingName}

const (
	generationPart = "generation"
	digestPart     = "digest"
	digestsPart    = "digests" // separated by spaces
)

// Digest identifies a body.
func Digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// parts returns the setting as it is stored.
func (s *Setting) parts() map[string][]byte {
	return map[string][]byte{
		generationPart: strconv.AppendInt(nil, s.Generation, 10), store.BodyPart: s.Body, digestPart: []byte(s.Digest),
		digestsPart: []byte(strings.Join(s.Digests, " ")),
	}
}

// parseSetting returns a setting that was read. One that cannot be read is none, as after a loss: an instance that knows it restores it.
func parseSetting(v store.Value) (_ Setting, readable bool) {
	generation, err := strconv.ParseInt(string(v.Parts[generationPart]), 10, 64)
	body, digests := v.Parts[store.BodyPart], strings.Fields(string(v.Parts[digestsPart]))
	s := Setting{Generation: generation, Digest: Digest(body), Body: body, Digests: digests, version: v.Version}
	if err != nil || generation < 1 || generation >= maxGeneration || len(digests) == 0 || digests[len(digests)-1] != s.Digest {
		return Setting{version: v.Version}, v.Parts == nil
	}
	return s, true
}

// published returns the setting that replaces the one in force when a body is published by an instance that knows a setting, which the
// store may have lost: its digests are kept. The one in force is not replaced by itself. A body that was in force before and was replaced
// replaces it only if it is forced: an instance that starts with an old file must not undo a change that was made since.
func (s *Setting) published(body []byte, force bool, known *Setting) (next Setting, replaces bool) {
	next = Setting{Generation: max(s.Generation, known.Generation) + 1, Digest: Digest(body), Body: body}
	if slices.Contains(s.Digests, next.Digest) && (!force || s.Digest == next.Digest) {
		return *s, false
	}
	next.Digests = mergeDigests(known.Digests, s.Digests, next.Digest)
	return next, true
}

// restored returns the setting that replaces the one in force when another one is restored that the store has lost. One of the same or a
// later generation is not replaced.
func (s *Setting) restored(lost *Setting) (next Setting, replaces bool) {
	if s.Generation >= lost.Generation {
		return *s, false
	}
	next = Setting{Generation: lost.Generation, Digest: Digest(lost.Body), Body: lost.Body}
	next.Digests = mergeDigests(lost.Digests, s.Digests, next.Digest)
	return next, true
}

// mergeDigests returns the digests that a caller knows and those of the store, each once, and the last one at the end.
func mergeDigests(known, stored []string, last string) []string {
	var merged []string
	for _, digest := range slices.Concat(known, stored) {
		if digest != last && !slices.Contains(merged, digest) {
			merged = append(merged, digest)
		}
	}
	merged = append(merged, last)
	return merged[max(0, len(merged)-maxDigests):]
}

// maxTries bounds how often a write is tried again because another instance was first. It is more than there are instances.
const maxTries = 100

var errOthersFirst = errors.New("other instances change the pools all the time")

// replaceSetting replaces the setting in the store by the one that replace makes of it, if it makes one, and returns the one that is in
// force after that. It is announced in any case: the call may be repeated because its reply was lost.
func replaceSetting(
	ctx context.Context, values store.Values, replace func(current *Setting) (next Setting, replaces bool),
) (Setting, error) {
	for range maxTries {
		stored, err := store.ReadValue(ctx, values, store.ValueQuery{Key: settingKey})
		if err != nil {
			return Setting{}, err
		}
		current, _ := parseSetting(stored) // one that cannot be read is replaced
		next, replaces := replace(&current)
		p := store.WriteValueParams{Key: settingKey, Announce: true}
		if replaces {
			p.Parts, p.Replaces = next.parts(), &stored.Version
		}
		if written, err := values.WriteValue(ctx, p); err != nil || written {
			return next, err
		}
	}
	return Setting{}, errOthersFirst
}
