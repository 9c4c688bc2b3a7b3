package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Settings holds the settings on which all instances must agree, such as the division of the fleet into pools. Each has a generation, which
// grows with every change.
type Settings interface {
	// LoadSetting returns a setting, without its body and its digests if it is the known one. The zero Setting means that it was never
	// published, or was lost; as the known one, it means that none is known.
	LoadSetting(ctx context.Context, name string, known Setting) (Setting, error)
	// PublishSetting replaces a setting, and returns the one that is in force after that. The one in force is not replaced by itself. A
	// body that was in force before and was replaced replaces the current one only if it is forced: an instance that starts with an old
	// file must not undo a change that was made since. It announces the setting.
	PublishSetting(ctx context.Context, p SettingParams) (Setting, error)
	// RestoreSetting writes a setting that the store has lost, in a failover or because it was emptied, with its digests, and returns the
	// one that is in force after that. A setting of the same or a later generation is not replaced. It announces the setting.
	RestoreSetting(ctx context.Context, name string, s Setting) (Setting, error)
	// AnnounceSetting makes all instances that watch the fleet read a setting: they get a Change with its name. An announcement that is
	// lost is not repeated.
	AnnounceSetting(ctx context.Context, name string)
}

// Setting is a setting at one generation.
type Setting struct {
	Generation int64
	Digest     string // of the body: a store that was emptied counts generations from the start
	Body       []byte
	// Digests are those of the bodies that were in force before, the oldest first, and at the end that of this one.
	Digests []string
}

// SettingParams describes a setting that is published.
type SettingParams struct {
	Name  string
	Body  []byte
	Force bool
	// Known is the setting that the caller knows. The new one has a later generation, and the known digests are kept, also if the store has
	// lost the known one.
	Known Setting
}

// MaxSettingDigests is how many digests of a setting a store keeps.
const MaxSettingDigests = 64

// SettingDigest identifies a body.
func SettingDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}
