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

// storedText returns a record as scripts store it: the server puts its times before it.
func storedText(t *rapid.T, j *core.Job, created, now int64) string {
	text, err := encode(j)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(created, 10) + "," + strconv.FormatInt(now, 10) + "," + text
}

var anyText = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`))

func drawJob(t *rapid.T) *core.Job {
	id := rapid.StringMatching(`[A-Za-z0-9._:-]{1,20}`)
	j := &core.Job{
		ID: "job-1", Fingerprint: id.Draw(t, "print"), State: core.StateDispatched, Version: 1,
		Spec: core.Spec{
			Request: core.RequestID(id.Draw(t, "request")), Session: core.SessionID(id.Draw(t, "session")), Incarnation: core.SessionIncarnation(id.Draw(t, "incarnation")),
			Direction: core.Direction{Src: "en", Tgt: "zh-TW"}, AudioRef: strings.ToValidUTF8(anyText.Draw(t, "audio"), "?"),
			Options: core.Options{
				RequireTTS: rapid.Bool().Draw(t, "tts"), Features: rapid.SliceOfN(id, 0, 2).Draw(t, "features"),
				PreferredNodeID: rapid.SampledFrom([]*string{nil, new("n1")}).Draw(t, "preferred"),
			},
			Admission: core.Token(rapid.SampledFrom([]string{"", "i-1.2a"}).Draw(t, "admission")),
			Pool:      core.JobPool{ID: core.PoolID(rapid.SampledFrom([]string{"", "gold"}).Draw(t, "pool")), Bound: rapid.Bool().Draw(t, "bound")},
		},
		Holder: core.Holder{Attempt: 1, Node: core.NodeID(id.Draw(t, "node")), Epoch: core.Epoch(rapid.Int64Range(1, 1<<52).Draw(t, "epoch"))},
		Token:  core.Token(id.Draw(t, "token")), Created: unresolvedNow, Updated: unresolvedNow, Deadline: unresolvedNow.Add(30 * time.Second),
	}
	if rapid.Bool().Draw(t, "spoken") {
		j.Utterance = core.Utterance{
			Turn: rapid.Int64Range(1, 1<<40).Draw(t, "turn"), ID: rapid.SampledFrom([]string{"", "u-1"}).Draw(t, "utterance"),
			AudioMS: rapid.Int64Range(0, 60_000).Draw(t, "ms"), WaitMS: rapid.Int64Range(0, 60_000).Draw(t, "wait"),
			SegmentationMS: rapid.Int64Range(0, 60_000).Draw(t, "segmentation"),
		}
	}
	j.BeginAttempt(unresolvedNow)
	return j
}

// TestRecordRoundTrip: a record is decoded as it was encoded, after random transitions at random times, and its head is the one that the
// compare-and-set expects, as long as no two transitions are within a millisecond.
func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		job := drawJob(t)
		created := rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000).Draw(t, "created")
		now := created
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			text := storedText(t, job, created, now)
			resolveTimes(job, now)
			got, err := decodeRecord("job-1", text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if diff := cmp.Diff(job, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("record (-encoded +decoded):\n%s\n%s", diff, text)
			}
			if seen := headText(text); seen != headOf(got) {
				t.Fatalf("the head is\n%sand the expected one is\n%s", seen, headOf(got))
			}
			p := store.ApplyParams{
				Job: "job-1", AnyHolder: true, RetryFor: time.Minute, Owner: "o.1", Token: "t.2", To: core.Holder{Attempt: 2, Node: "n2", Epoch: 9},
				Event:  rapid.SampledFrom([]core.Event{core.EventRetry, core.EventTakeover, core.EventMove, core.EventDone, core.EventFail}).Draw(t, "event"),
				Reason: core.ReasonNodeLost, Detail: strings.ToValidUTF8(anyText.Draw(t, "detail"), "?"), Result: []byte("{\"a\":\n[1]}"),
			}
			next, outcome, _ := transition(job, &p)
			if outcome != store.Decided {
				continue
			}
			job = next
			now += rapid.Int64Range(1, 100_000).Draw(t, "later")
		}
	})
}

// FuzzDecodeRecord: no text causes a panic.
func FuzzDecodeRecord(f *testing.F) {
	f.Add("1,1,1,DISPATCHED,30000,,,;1,n,1,t,0,,\n{}")
	f.Add("")
	f.Add("\n\n")
	f.Add("1,2,2,DONE,30000,o,-1,NODE_LOST;1,n,1,t,0,-9223372036854775808,\n{\"z\":1}")
	f.Add("1,2,2,DONE,30000,,,\n{}")
	f.Add("1,2,2,DONE,30000,,,;,,,,,,\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		job, err := decodeRecord("job-1", text)
		if err == nil && !strings.HasPrefix(text, headText(text)) {
			t.Errorf("%q is decoded as %+v", text, job)
		}
	})
}
