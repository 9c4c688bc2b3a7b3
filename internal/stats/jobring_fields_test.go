package stats

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/test/storetest"
)

// TestEntriesKeepEveryField: an entry has every field, except those that no list and no search of ended jobs shows.
func TestEntriesKeepEveryField(t *testing.T) {
	t.Parallel()
	storetest.Fields[core.Job]{
		Base: core.Job{Spec: core.Spec{Options: core.Options{Region: "eu"}}}, // of the options, only this one is kept
		Except: []string{
			"Incarnation", "AudioRef", "LastNode", "Admission", "Utterance", "Fingerprint", "Owner", "Retry", "Token", "Result", "Version", "Epoch",
			"Options", "History.Epoch", "History.Token",
		},
		Keep: func(t *testing.T, job core.Job) (got core.Job) {
			if !decodeJob(encodeJob(&job), &got) {
				t.Fatal("the entry cannot be read")
			}
			return got
		},
	}.Check(t)
	storetest.Fields[core.Decision]{Keep: func(t *testing.T, d core.Decision) (got core.Decision) {
		if !decodeDecision(encodeDecision(&d), &got) {
			t.Fatal("the entry cannot be read")
		}
		return got
	}}.Check(t)
}
