package redisstore

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// The files in testdata/stored are what an earlier version has stored. Instances of two versions share a store during an update, so the
// files are never written again: this version must read them, and store what that version understands.

// storedBytes returns what an earlier version has stored.
func storedBytes(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "stored", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(text, []byte("\n")))
}

// earlierOptions are the options of a job as an earlier version reads them.
type earlierOptions struct {
	RequireTTS       bool
	RequiredServices []string
	RequiredModels   []string
	Features         []string
	PreferredNode    core.NodeID
	Strict           bool
	Region           string
	PreferredRegion  string
	MaxWaitMS        *int64
}

// readAsEarlier returns a record as an earlier version reads it: its head, its options, and the other fields of its body.
func readAsEarlier(t *testing.T, text string) (head string, options earlierOptions, body map[string]string) {
	t.Helper()
	head, rest, _ := strings.Cut(text, "\n")
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal([]byte(rest), &fields); err != nil {
		t.Fatalf("%v\n%s", err, rest)
	}
	if text := fields["o"]; text != nil {
		if err := json.Unmarshal(text, &options); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	delete(fields, "o")
	body = make(map[string]string)
	for name, value := range fields {
		body[name] = string(value)
	}
	return head, options, body
}

// fullJob is a job of which every field is set.
func fullJob() *core.Job {
	at := time.UnixMilli(1_700_000_000_000)
	return &core.Job{
		ID: "job-1", Fingerprint: "6ad8500418951b9468a69807c16db9c9",
		Spec: core.Spec{
			Request: "req-1", Tenant: "acme", Session: "s-1", Incarnation: "inc-1", Direction: core.Direction{Src: "zh", Tgt: "en"},
			AudioRef: "https://audio.example/1.wav?sig=\"a\"&b=<c>",
			Options: core.Options{
				RequireTTS: true, RequiredServices: []string{"asr-2@>=2.1", "nmt-1"}, RequiredModels: []string{"m-1", "m-2"},
				Features: []string{"tone", "vad"}, PreferredNodeID: new("node-1"), Strict: true, Region: "eu", PreferredRegion: "us",
				MaxWaitMS: new(int64(2_500)),
			},
			Utterance: core.Utterance{Turn: 3, ID: "u-\n3", AudioMS: 600, Continues: 2, WaitMS: 40, SegmentationMS: 50},
			LastNode:  "node-0", Pool: core.JobPool{ID: "gold", Bound: true}, Admission: "i-1.2a", TestJob: true,
		},
		State: core.StateRetrying, Holder: core.Holder{Attempt: 2, Node: "node-1", Epoch: 8}, Token: "t.2", Owner: "o.1",
		Retry: at.Add(12 * time.Second), Reason: core.ReasonNodeLost, Detail: "CUDA \"out of\nmemory\"", Result: []byte(`{"text_tgt":"你好"}`),
		History: []core.Attempt{
			{Holder: core.Holder{Attempt: 1, Node: "node-2", Epoch: 7}, Token: "t.1", Started: at, Ended: at.Add(2 * time.Second),
				Reason: core.ReasonACKTimeout},
			{Holder: core.Holder{Attempt: 2, Node: "node-1", Epoch: 8}, Token: "t.2", Started: at.Add(2 * time.Second),
				Ended: at.Add(3 * time.Second), Reason: core.ReasonNodeLost},
		},
		Version: 4, Created: at, Updated: at.Add(2 * time.Second), Deadline: at.Add(30 * time.Second),
	}
}

// emptyJob is a job of which only what every job has is set.
func emptyJob() *core.Job {
	at := time.UnixMilli(1_700_000_000_000)
	return &core.Job{
		ID: "job-1", State: core.StateDispatched, Created: at, Updated: at, Deadline: at, History: []core.Attempt{{}},
	}
}

func TestStoredBytesOfJobs(t *testing.T) {
	t.Parallel()
	speech := emptyJob()
	speech.Options.RequireTTS = true
	for name, job := range map[string]*core.Job{"job_full": fullJob(), "job_speech": speech, "job_empty": emptyJob()} {
		stored := storedBytes(t, name)
		got, err := decodeRecord(job.ID, stored)
		if diff := cmp.Diff(job, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +read):\n%s", name, err, diff)
		}
		body, err := appendBody(nil, job)
		if err != nil {
			t.Fatal(err)
		}
		wantHead, wantOptions, wantBody := readAsEarlier(t, stored)
		head, options, rest := readAsEarlier(t, headOf(job)+string(body))
		if diff := cmp.Diff(wantHead, head); diff != "" {
			t.Errorf("%s: the head (-earlier +now):\n%s", name, diff)
		}
		if diff := cmp.Diff(wantOptions, options); diff != "" {
			t.Errorf("%s: the options as an earlier version reads them (-earlier +now):\n%s", name, diff)
		}
		if diff := cmp.Diff(wantBody, rest); diff != "" {
			t.Errorf("%s: the body without options (-earlier +now):\n%s", name, diff)
		}
	}
}

// fullNode is a node of which every declared field is set.
func fullNode() *core.Node {
	return &core.Node{
		ID: "node-1", Declaration: core.Declaration{Health: core.HealthDegraded, MaxJobs: 8,
			Capability: core.Capability{
				ASR: core.LangSet{"en", "zh"}, Semantic: core.LangSet{"de", "en"}, TTS: core.LangSet{"fr"},
				Pairs: []core.Direction{{Src: "en", Tgt: "zh"}, {Src: "zh", Tgt: "en"}}, AnyPair: true,
				Types:  core.ServiceTypes{ASR: core.Yes, NMT: core.No, TTS: core.Yes, Tone: core.Unknown, Semantic: core.Yes},
				Models: []string{"m-1", "m-2@1.0"},
				Services: []core.Service{
					{ID: "asr", Version: "2.1", Type: "asr", Status: core.ServiceReady, ReadySince: 12}, {ID: "nmt", Status: core.ServiceError},
				},
				Features: []string{"tone", "v<a>d"},
			},
			Region: "eu", Zone: "eu-1", Tenant: "acme", Pool: "gold", Key: "key-1", Callback: "https://node.example/job?a=1&b=2", Owner: "i-1",
			SecretHash: core.HashSecret("secret")},
	}
}

func TestStoredBytesOfNodes(t *testing.T) {
	t.Parallel()
	large := fullNode()
	large.Models = nil
	for range 2_000 {
		large.Models = append(large.Models, "model")
	}
	for name, n := range map[string]*core.Node{
		"node_full": fullNode(), "node_empty": {ID: "node-1", Declaration: core.Declaration{Health: core.HealthReady}}, "node_large": large,
	} {
		stored := storedBytes(t, name)
		got, err := decodeNode(n.ID, nodeFields{"3", "4", "5", "0", "0", ""}, stored)
		want := *n
		want.Epoch, want.Revision, want.Version = 3, 4, 5
		if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +read):\n%s", name, err, diff)
		}
		text, err := encodeNode(n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(unpacked(t, stored), unpacked(t, text)); diff != "" {
			t.Errorf("%s (-earlier +now):\n%s", name, diff)
		}
	}
}

// unpacked returns what scripts and instances read of a stored node: the line in clear, if it is compressed, and the JSON. The compressed
// bytes are another version's of the compressor.
func unpacked(t *testing.T, stored string) string {
	t.Helper()
	text, err := unpackBody(stored)
	if err != nil {
		t.Fatal(err)
	}
	if line, _, found := strings.Cut(stored, "\n"); found {
		return line + "\n" + string(text)
	}
	return string(text)
}

func BenchmarkRecord(b *testing.B) {
	plain, speech := fullJob(), fullJob()
	plain.Options, speech.Options = core.Options{}, core.Options{RequireTTS: true}
	for name, job := range map[string]*core.Job{"no option": plain, "one option": speech, "every option": fullJob()} {
		b.Run("encode "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encode(job); err != nil {
					b.Fatal(err)
				}
			}
		})
		text, err := encode(job)
		if err != nil {
			b.Fatal(err)
		}
		text = "1700000000000,1700000002000," + text
		b.Run("decode "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeRecord(job.ID, text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
