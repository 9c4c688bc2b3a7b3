package redisstore

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// stored is a record as the scripts leave it: the server puts its times in front.
func stored(t *rapid.T, j *core.Job, created, now int64) string {
	text, err := encode(j)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(created, 10) + "," + strconv.FormatInt(now, 10) + "," + text
}

var anything = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`))

func drawJob(t *rapid.T) *core.Job {
	id := rapid.StringMatching(`[A-Za-z0-9._:-]{1,20}`)
	j := &core.Job{
		ID: "job-1", Fingerprint: id.Draw(t, "print"), State: core.StateDispatched, Version: 1,
		Spec: core.Spec{
			Request: core.RequestID(id.Draw(t, "request")), Session: core.SessionID(id.Draw(t, "session")), Incarnation: core.SessionIncarnation(id.Draw(t, "incarnation")),
			Direction: core.Direction{Src: "en", Tgt: "zh-TW"}, AudioRef: strings.ToValidUTF8(anything.Draw(t, "audio"), "?"),
			Options: core.Options{
				RequireTTS: rapid.Bool().Draw(t, "tts"), Features: rapid.SliceOfN(id, 0, 2).Draw(t, "features"),
				PreferredNode: core.NodeID(rapid.SampledFrom([]string{"", "n1"}).Draw(t, "preferred")),
			},
		},
		Holder: core.Holder{Attempt: 1, Node: core.NodeID(id.Draw(t, "node")), Epoch: core.Epoch(rapid.Int64Range(1, 1<<52).Draw(t, "epoch"))},
		Token:  core.Token(id.Draw(t, "token")), Created: asOf, Updated: asOf, Deadline: asOf.Add(30 * time.Second),
	}
	if rapid.Bool().Draw(t, "spoken") {
		j.Utterance = core.Utterance{
			Turn: rapid.Int64Range(1, 1<<40).Draw(t, "turn"), ID: rapid.SampledFrom([]string{"", "u-1"}).Draw(t, "utterance"),
			AudioMS: rapid.Int64Range(0, 60_000).Draw(t, "ms"),
		}
	}
	j.BeginAttempt(asOf)
	return j
}

// TestRecordsAreReadAsTheyWereWritten through random steps, at random times; and what the store would compare a step
// by is what stands in the record, as long as no two steps fall into one millisecond.
func TestRecordsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		job := drawJob(t)
		created := rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000).Draw(t, "created")
		now := created
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			text := stored(t, job, created, now)
			settle(job, now)
			got, err := decodeRecord("job-1", text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(job, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("record (-written +read):\n%s\n%s", diff, text)
			}
			if seen := beginning(text); seen != seenAs(got) {
				t.Fatalf("it begins with\n%sand would be compared by\n%s", seen, seenAs(got))
			}
			p := store.ApplyParams{
				Job: "job-1", AnyHolder: true, RetryFor: time.Minute, Owner: "o.1", Token: "t.2", To: core.Holder{Attempt: 2, Node: "n2", Epoch: 9},
				Event:  rapid.SampledFrom([]core.Event{core.EventRetry, core.EventTakeover, core.EventMove, core.EventDone, core.EventFail}).Draw(t, "event"),
				Reason: core.ReasonNodeLost, Detail: strings.ToValidUTF8(anything.Draw(t, "detail"), "?"), Result: []byte("{\"a\":\n[1]}"),
			}
			next, outcome, _ := step(job, &p)
			if outcome != store.Decided {
				continue
			}
			job = next
			now += rapid.Int64Range(1, 100_000).Draw(t, "later")
		}
	})
}

// FuzzDecodeRecord holds that no text stops the program.
func FuzzDecodeRecord(f *testing.F) {
	f.Add("1,1,1,DISPATCHED,30000,,,;1,n,1,t,0,,\n{}")
	f.Add("")
	f.Add("\n\n")
	f.Add("1,2,2,DONE,30000,o,-1,NODE_LOST;1,n,1,t,0,-9223372036854775808,\n{\"z\":1}")
	f.Add("1,2,2,DONE,30000,,,\n{}")
	f.Add("1,2,2,DONE,30000,,,;,,,,,,\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		job, err := decodeRecord("job-1", text)
		if err == nil && !strings.HasPrefix(text, beginning(text)) {
			t.Errorf("%q is read as %+v", text, job)
		}
	})
}
