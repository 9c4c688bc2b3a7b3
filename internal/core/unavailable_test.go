package core

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestClassifyReason(t *testing.T) {
	t.Parallel()
	for want, texts := range map[UnavailableReason][]string{
		UnavailableNotInstalled:    {"not_installed", "NOT_INSTALLED", "service not installed", "MODEL_NOT_FOUND", "missing", "Uninstalled", "no such model"},
		UnavailableInstalling:      {"installing", "DOWNLOADING", "verifying", "still loading", "NOT_READY"},
		UnavailableVersionMismatch: {"version_mismatch", "VERSION-MISMATCH", "wrong version", "active version is 3.0"},
		UnavailableRuntimeError: {
			"runtime_error", "ERROR", "CHECKSUM_MISMATCH", "process crashed", "load failed", "INSTALL_FAILED", "dependency missing", "CUDA out of memory", "service not running",
		},
		UnavailableStateDrift: {"state_drift", "STATE DRIFT", "switched since the last heartbeat"},
		UnavailableOther:      {"", "other", "?", "the user asked for the old harbour", "未安装", strings.Repeat("x", maxReason) + "not_installed", "\x00\xff"},
	} {
		for _, text := range texts {
			if got := ClassifyReason(text); got != want {
				t.Errorf("%.40q is %s, want %s", text, got, want)
			}
		}
	}
}

// TestEveryUnavailableReasonIsItself: a node that sends one of the names means it.
func TestEveryUnavailableReasonIsItself(t *testing.T) {
	t.Parallel()
	for _, reason := range UnavailableReasons() {
		for _, text := range []string{string(reason), strings.ToUpper(string(reason)), strings.ReplaceAll(string(reason), "_", " ")} {
			if got := ClassifyReason(text); got != reason {
				t.Errorf("%q is %s", text, got)
			}
		}
	}
}

func TestClassifyReasonIsBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		if got := ClassifyReason(text); !slices.Contains(UnavailableReasons(), got) {
			t.Fatalf("%q is %q", text, got)
		}
	})
}
