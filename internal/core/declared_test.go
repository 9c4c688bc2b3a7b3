package core

import (
	"strings"
	"testing"
)

// TestDeclaredNamesCanBeRequired: what may be declared can be required by its id, and nothing else may be.
func TestDeclaredNamesCanBeRequired(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"asr-large": true, "org/asr:zh.v2": true, "音声": true, "asr@2": false, "@": false, "a,b": false, "a<b": false, "a>b": false, "a=b": false, "": false, "a\x00b": false, "a\x7f": false,
	} {
		err := CheckServiceName(id)
		if (err == nil) != want || (CheckRequired(id) == nil) != want && !strings.Contains(id, "@") {
			t.Errorf("service %q: %v, required: %v", id, err, CheckRequired(id))
		}
		if want && len(versions([]Service{{ID: id}}, id)) != 1 {
			t.Errorf("service %q is not found", id)
		}
	}
	for name, want := range map[string]bool{
		"whisper": true, "whisper@2.1": true, "whisper@latest": true, "whisper@sha256:1=": true, "whisper@": true, "a@b@c": true,
		"@2": false, "a=b@2": false, "a,b": false, "": false, "a\x01": false, "a@2\n": false,
	} {
		if err := CheckModelName(name); (err == nil) != want {
			t.Errorf("model %q: %v", name, err)
		}
		id, _, _ := strings.Cut(name, "@")
		if c := (Capability{Models: []string{name}}); want && (CheckRequired(id) != nil || !c.HasModel(id)) {
			t.Errorf("model %q cannot be required as %q", name, id)
		}
	}
}
