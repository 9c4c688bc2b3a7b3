package pools

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Decode and Encode convert a division.
var (
	Decode = decode
	Encode = encode
)

// CountAgain counts the nodes whether or not the last count may be used again.
func (r *Reader) CountAgain(ctx context.Context) (*Overview, error) { return r.count(ctx) }

// PublishBody publishes a body as an instance does that starts with it and knows no setting, and returns what is in force.
func PublishBody(ctx context.Context, values store.Values, body string) (Setting, error) {
	return replaceSetting(ctx, values, func(current *Setting) (Setting, bool) { return current.published([]byte(body), false, &Setting{}) })
}

// Restore restores a setting that the store has lost, and returns what is in force.
func Restore(ctx context.Context, values store.Values, lost Setting) (Setting, error) {
	return replaceSetting(ctx, values, func(current *Setting) (Setting, bool) { return current.restored(&lost) })
}

// Stored returns the setting in the store.
func Stored(ctx context.Context, values store.Values) (Setting, error) {
	stored, err := store.ReadValue(ctx, values, store.ValueQuery{Key: settingKey})
	s, _ := parseSetting(stored)
	return s, err
}

// PublishedSetting and RestoredSetting are the pure functions.
var (
	PublishedSetting = (*Setting).published
	RestoredSetting  = (*Setting).restored
)

// MaxDigests is how many digests of a setting are kept.
const MaxDigests = maxDigests
