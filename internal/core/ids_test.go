package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestValidID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id string
		want     bool
	}{
		{"one character", "a", true},
		{"every kind of character", "AZaz09._:-", true},
		{"made by us", "node-0198c2de-7a3c-7cc1-b1a5-0123456789ab", true},
		{"only punctuation", "...", true},
		{"at the bound", strings.Repeat("x", 128), true},
		{"empty", "", false},
		{"over the bound", strings.Repeat("x", 129), false},
		{"blank", "a b", false},
		{"slash", "a/b", false},
		{"hash tag of a Redis key", "a{b}", false},
		{"star", "node*", false},
		{"comma", "a,b", false},
		{"plus", "a+b", false},
		{"at", "a@b", false},
		{"backquote, just below a", "`", false},
		{"bracket, just above Z", "[", false},
		{"brace, just above z", "{", false},
		{"semicolon, just above :", ";", false},
		{"line end", "a\n", false},
		{"zero byte", "a\x00", false},
		{"character outside ASCII", "é", false},
		{"digit outside ASCII", "١", false},
		{"not UTF-8", "\xff", false},
	} {
		if got := ValidID(c.id); got != c.want {
			t.Errorf("%s: ValidID(%q) = %v, want %v", c.name, c.id, got, c.want)
		}
	}
}

// TestValidIDByByte checks every byte, including the neighbours of the ranges.
func TestValidIDByByte(t *testing.T) {
	t.Parallel()
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	var got strings.Builder
	for b := range 256 {
		if ValidID(string([]byte{'x', byte(b)})) {
			got.WriteByte(byte(b))
		}
	}
	if len(got.String()) != len(allowed) || strings.Trim(got.String(), allowed) != "" {
		t.Errorf("allowed characters (-want +got):\n%s", cmp.Diff(allowed, got.String()))
	}
}

// TestJobIDForIsStable compares with values that were computed outside this program: a release must find the jobs of the
// one before.
func TestJobIDForIsStable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tenant  TenantID
		request RequestID
		want    JobID
	}{
		{"acme", "req-1", "job-327073e7b5df1bd13b793b411f798a55"},
		{"ab", "c", "job-f2939f903016e5bb29b1e4a61cdbd376"},
		{"a", "bc", "job-b534ce16ac9c8b36823f39a395ce8e0e"},
		{"", "abc", "job-c3494ca1a2cf8eeb8a11ded316fb55b8"},
		{"abc", "", "job-2ddb14a1438cb06f0658085e174f50ef"},
		{"", "", "job-af5570f5a1810b7af78caf4bc70a660f"},
	} {
		if diff := cmp.Diff(c.want, JobIDFor(c.tenant, c.request)); diff != "" {
			t.Errorf("JobIDFor(%q, %q) (-want +got):\n%s", c.tenant, c.request, diff)
		}
	}
}

// TestJobIDForSeparatesTenantAndRequest checks that the same text, split at another place, gives another job.
func TestJobIDForSeparatesTenantAndRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 40, -1).Draw(t, "text")
		seen := make(map[JobID]int)
		for cut := range len(text) + 1 {
			id := JobIDFor(TenantID(text[:cut]), RequestID(text[cut:]))
			if !ValidID(string(id)) {
				t.Fatalf("%q is not a valid id", id)
			}
			if other, dup := seen[id]; dup {
				t.Fatalf("%q cut at %d and at %d gives the same job %s", text, other, cut, id)
			}
			seen[id] = cut
		}
	})
}
