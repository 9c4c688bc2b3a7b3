package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// Settings holds the settings on which all instances must agree, such as the division of the fleet into pools. Each has a generation, which
// grows with every change.
type Settings interface {
	// LoadSetting returns a setting, without its body if it is the known one. The zero Setting means that it was never published, or was
	// lost; as the known one, it means that none is known.
	LoadSetting(ctx context.Context, name string, known Setting) (Setting, error)
	// PublishSetting replaces a setting, and returns the one that is in force after that. The one in force is not replaced by itself. A body
	// that was in force before and was replaced replaces the current one only if it is forced: an instance that starts with an old
	// file must not undo a change that was made since.
	PublishSetting(ctx context.Context, p SettingParams) (Setting, error)
	// RestoreSetting writes a setting that the store has lost, in a failover or because it was emptied, and returns the one that is in force
	// after that. A setting of the same or a later generation is not replaced.
	RestoreSetting(ctx context.Context, name string, s Setting) (Setting, error)
}

// Setting is a setting at one generation.
type Setting struct {
	Generation int64
	Digest     string // of the body: a store that was emptied counts generations from the start
	Body       []byte
}

// SettingParams describes a setting that is published.
type SettingParams struct {
	Name  string
	Body  []byte
	Force bool
	// Known is the generation that the caller knows. The new one is later, also if the store has lost the known one.
	Known int64
}

// MaxSettingDigests is of how many bodies that were in force before a store knows that they were.
const MaxSettingDigests = 64

// SettingDigest identifies a body.
func SettingDigest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}
