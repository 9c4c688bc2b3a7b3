package session

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

func storedState() savedSession {
	at := time.UnixMilli(1_700_000_000_000).UTC()
	return savedSession{
		TokenHash: "hash", Started: at, Known: at.Add(time.Second),
		Settings: settings{
			Langs: [2]core.Lang{"zh", "en"}, Src: "zh", Format: wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1},
			Pause: time.Second, MaxUtterance: time.Minute, Silence: 0.01, Partials: true, TTS: true, Manual: true, Numbered: true,
		},
		Options: []core.Options{
			{
				RequireTTS: true, RequiredServices: []string{"asr-2@>=2.1"}, RequiredModels: []string{"m-1"}, Features: []string{"tone"},
				PreferredNodeID: new("node-1"), Strict: true, Region: "eu", PreferredRegion: "us", MaxWaitMS: new(int64(2_500)),
			},
			{Region: "eu"},
			{},
		},
		Turns: 4, Assigned: 70, Acked: 2, Counted: 2, Results: 1, Errors: 1, AudioMS: 900, Reconnects: 1,
		Pending: []savedUtterance{{
			Turn: 3, FirstSeq: 50, LastSeq: 60, ID: "u-3", Request: "r-3", Direction: core.Direction{Src: "zh", Tgt: "en"}, AudioMS: 600, Options: 1,
			TTS: true, Continues: 2, Reason: "pause",
		}},
	}
}

// TestStoredSession: the file is what an earlier version has saved, so it is never written again.
func TestStoredSession(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/stored/session.json")
	if err != nil {
		t.Fatal(err)
	}
	var got savedSession
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(storedState(), got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
}
