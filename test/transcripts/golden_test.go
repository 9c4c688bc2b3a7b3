package transcripts

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/test/docpage"
)

var update = flag.Bool("update", false, "write the transcripts into the pages")

// root is the root of the repository.
const root = "../.."

// transcripts are all transcripts by name: who is recorded, a dash, and what happens.
var transcripts = map[string]func(*testing.T, *recorder){
	"node-happy-path":   recordNodeHappyPath,
	"node-speech":       recordNodeSpeech,
	"node-resume":       recordNodeResume,
	"node-failover":     recordNodeFailover,
	"node-go-away":      recordNodeGoAway,
	"node-drain":        recordNodeDrain,
	"node-leave":        recordNodeLeave,
	"node-cancel":       recordNodeCancel,
	"node-busy":         recordNodeBusy,
	"node-fail":         recordNodeFail,
	"node-model":        recordNodeModel,
	"node-remote-audio": recordNodeRemoteAudio,
	"node-errors":       recordNodeErrors,
	"node-keepalive":    recordNodeKeepalive,
	"node-existing":     recordNodeExisting,

	"session-happy-path":   recordSessionHappyPath,
	"session-speech":       recordSessionSpeech,
	"session-resume":       recordSessionResume,
	"session-failover":     recordSessionFailover,
	"session-audio-gone":   recordSessionAudioGone,
	"session-go-away":      recordSessionGoAway,
	"session-cancel":       recordSessionCancel,
	"session-continuation": recordSessionContinuation,
	"session-limit":        recordSessionLimit,
	"session-waiting":      recordSessionWaiting,
	"session-tenant":       recordSessionTenant,
	"session-pace":         recordSessionPace,
	"session-warnings":     recordSessionWarnings,
	"session-update":       recordSessionUpdate,
	"session-keepalive":    recordSessionKeepalive,
	"session-existing":     recordSessionExisting,
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	for name, record := range transcripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := &recorder{}
			record(t, rec)
			compare(t, docpage.TranscriptInfo(name), docpage.FormatTranscript(rec.entries), canonical)
		})
	}
}

// TestEveryTranscriptIsRecorded checks that the pages have no transcript that these tests do not record.
func TestEveryTranscriptIsRecorded(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for _, page := range loadPages(t) {
		for _, b := range page.Blocks() {
			if name := b.TranscriptName(); name != "" {
				seen[name]++
			}
		}
	}
	for name, n := range seen {
		if transcripts[name] == nil {
			t.Errorf("no test records the transcript %s", name)
		}
		if n > 1 {
			t.Errorf("the transcript %s is in the pages %d times", name, n)
		}
	}
}

func loadPages(t *testing.T) []docpage.Page {
	t.Helper()
	pages, err := docpage.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// pageFiles is held while pages are written.
var pageFiles sync.Mutex

// compare compares a recorded body with the block of an info string, or writes it there. canonical returns what does not differ
// from run to run.
func compare(t *testing.T, info, recorded string, canonical func(string) []string) {
	t.Helper()
	pageFiles.Lock()
	defer pageFiles.Unlock()
	for _, page := range loadPages(t) {
		blocks := page.Blocks()
		at := slices.IndexFunc(blocks, func(b docpage.Block) bool { return b.Info == info })
		if at < 0 {
			continue
		}
		want, got := canonical(blocks[at].Body), canonical(recorded)
		switch {
		case cmp.Equal(want, got):
		case *update:
			next, _ := page.ReplaceBlock(info, recorded)
			if err := os.WriteFile(filepath.Join(root, page.Path), []byte(next.Text), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s:%d differs from what happens; write it again with -update (-page +recorded)\n%s", page.Path, blocks[at].Line, cmp.Diff(want, got))
		}
		return
	}
	t.Errorf("no page has a block %q; recorded:\n%s", info, recorded)
}

// Values that differ from run to run. An identity is compared by where it occurs: the same value at the same places.
var (
	identity = regexp.MustCompile(`"(job_id|resume_token|epoch|url|tts_upload)": (?:"([^"]+)"|(\d+))`)
	measured = regexp.MustCompile(`"(deadline_ms|total_ms|wait_ms|dispatch_ms|node_ms|segmentation_ms|retry_after|retry_after_ms)": \d+`)
	space    = regexp.MustCompile(`\n +`)
)

// canonical returns the lines of a transcript with placeholders for values that differ from run to run.
func canonical(body string) []string {
	body = measured.ReplaceAllString(space.ReplaceAllString(body, " "), `"$1": 0`)
	names, count := make(map[string]string), make(map[string]int)
	var values []string
	for _, m := range identity.FindAllStringSubmatch(body, -1) {
		value := m[2] + m[3]
		if names[value] == "" {
			count[m[1]]++
			names[value] = fmt.Sprintf("<%s %d>", m[1], count[m[1]])
			values = append(values, value)
		}
	}
	// The longest first: a URL contains a job id.
	slices.SortStableFunc(values, func(a, b string) int { return len(b) - len(a) })
	for _, value := range values {
		body = strings.ReplaceAll(body, value, names[value])
	}
	return strings.Split(strings.TrimSpace(body), "\n")
}

// TestDifferencesAreSeen checks that what is compared is not blind: a page that says something else differs from what is recorded.
func TestDifferencesAreSeen(t *testing.T) {
	t.Parallel()
	const (
		transcript = "→ {\"job_id\": \"job-1\",\n   \"attempt_id\": 1}\n← {\"url\": \"http://a/job-1\", \"total_ms\": 17, \"detail\": \"the job is job-1\"}\n"
		terminal   = "$ lingua jobs job-12ab\nn1  ready  12s ago\n1   n1   412ms  done\nasr: for another 1m0s\n"
		frame      = "{\"kind\":\"audio\",\"job_id\":\"job-1\"}\xff\x7f|x  y"
	)
	asHex := func(frame string) []string { return canonicalHex(formatHex([]byte(frame))) }
	for name, c := range map[string]struct {
		canonical   func(string) []string
		text, other string
		equal       bool
	}{
		"another job":             {canonical, transcript, strings.ReplaceAll(transcript, "job-1", "job-2"), true},
		"another identity":        {canonical, transcript, strings.Replace(transcript, "is job-1", "is job-2", 1), false},
		"another value":           {canonical, transcript, strings.Replace(transcript, "_id\": 1", "_id\": 2", 1), false},
		"another order":           {canonical, "→ {\"a\": 1}\n← {\"b\": 2}\n", "← {\"b\": 2}\n→ {\"a\": 1}\n", false},
		"another time":            {canonicalTerminal, terminal, strings.Replace(terminal, "12s ago", "now", 1), true},
		"another node":            {canonicalTerminal, terminal, strings.Replace(terminal, "n1  ready", "n2  ready", 1), false},
		"a frame of another job":  {asHex, frame, strings.Replace(frame, "job-1", "job-2", 1), true},
		"a frame of another kind": {asHex, frame, strings.Replace(frame, "audio", "sonic", 1), false},
		"a frame of more audio":   {asHex, frame, frame + "\x01", false},
	} {
		if equal := cmp.Equal(c.canonical(c.text), c.canonical(c.other)); equal != c.equal {
			t.Errorf("%s: equal is %v", name, equal)
		}
	}
}
