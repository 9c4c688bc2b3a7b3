package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestQueryCommands checks the output of every command that queries a scheduler, as a table and as JSON.
func TestQueryCommands(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	lingua := func(args ...string) result { return runCommand(t, append(args, "--server", s.url)...) }

	// Empty lists print a sentence.
	for _, c := range [][2]string{{"nodes", "no nodes are registered\n"}, {"jobs", "no job matches\n"}, {"directions", "no registered node serves a matching direction\n"}, {"dlq list", "there are no dead letters\n"}} {
		if got := lingua(strings.Fields(c[0])...); got.code != exitOK || got.out != c[1] {
			t.Errorf("lingua %s: exit %d, want %q, got %q %s", c[0], got.code, c[1], got.out, got.err)
		}
	}

	s.registerNode(t, "n1", 2)
	s.registerNode(t, "n2", 3)
	dispatch := func(request, node string) string {
		placed := s.post(t, "/v1/dispatch/f2f", `{"session_id":"talk","src_lang":"en","tgt_lang":"zh","request_id":%q,"options":{"preferred_node_id":%q}}`, request, node)
		return placed["job_id"].(string)
	}
	done, running := dispatch("req-1", "n1"), dispatch("req-2", "n1")
	s.post(t, "/v1/job/done", `{"job_id":%q,"attempt_id":1,"node_id":"n1"}`, done)
	s.post(t, "/v1/job/ack", `{"job_id":%q,"attempt_id":1,"node_id":"n1"}`, running)

	for line, want := range map[string][]string{
		"nodes":                       {"NODE HEALTH RESERVED RUNNING FOREIGN MAX LANGUAGES INSTANCE LAST SEEN", "n1 ready 0 1 0 2 en zh – now", "n2 ready 0 0 0 3 en zh – now"},
		"nodes n2":                    {"NODE HEALTH RESERVED RUNNING FOREIGN MAX LANGUAGES INSTANCE LAST SEEN", "n2 ready 0 0 0 3 en zh – now"},
		"jobs":                        {"JOB STATE DIRECTION NODE ATTEMPT REASON SESSION CREATED", running + " ACKED en→zh n1 1 talk now", done + " DONE en→zh n1 1 talk now"},
		"jobs --state done":           {"JOB STATE DIRECTION NODE ATTEMPT REASON SESSION CREATED", done + " DONE en→zh n1 1 talk now"},
		"jobs --limit 1":              {"JOB STATE DIRECTION NODE ATTEMPT REASON SESSION CREATED", running + " ACKED en→zh n1 1 talk now", "(there are more: --all, or a larger --limit)"},
		"jobs --limit 1000 --node n2": {"no job matches"}, // the maximum of one page
		"jobs --all --node n2":        {"no job matches"},
		"nodes --state silent":        {"no registered node matches"},
		"nodes --language ko --all":   {"no registered node matches"},
		"directions --node unknown":   {"no registered node serves a matching direction"},
		"jobs --node n2":              {"no job matches"},
		"jobs --session other":        {"no job matches"},
		"jobs --reason node_lost":     {"no job matches"},
		"jobs --src zh":               {"no job matches"},
		"jobs --tgt fr":               {"no job matches"},
		"jobs --tenant acme":          {"no job matches"},
		"jobs --until 1h":             {"no job matches"},
		"jobs --state open":           {"JOB STATE DIRECTION NODE ATTEMPT REASON SESSION CREATED", running + " ACKED en→zh n1 1 talk now"},
		"jobs --state Ended":          {"JOB STATE DIRECTION NODE ATTEMPT REASON SESSION CREATED", done + " DONE en→zh n1 1 talk now"},
		"jobs --since 1h --src en --tgt zh --search " + done: {"JOB STATE DIRECTION NODE ATTEMPT REASON SESSION CREATED", done + " DONE en→zh n1 1 talk now"},
		"jobs " + running: {
			"job " + running, "request req-2", "session talk", "direction en→zh", "state ACKED", "", "ATTEMPT NODE DURATION OUTCOME", "1 n1 running",
			"", "ATTEMPT CANDIDATE VERDICT", "1 n1 chosen",
		},
		"explain --from en --to zh": {"en→zh: OK. 2 of 2 capable nodes can take the job now.", "", "NODE IN FLIGHT VERDICT", "n1 1 of 2 eligible", "n2 0 of 3 eligible"},
		"explain --from en --to fr": {
			"en→fr: NO_CAPABLE_NODE. No node supports semantic(en) + nmt(en->fr).", "NMT_PAIR_UNSUPPORTED 2", "", "NODE IN FLIGHT VERDICT",
			"n1 1 of 2 NMT_PAIR_UNSUPPORTED", "n2 0 of 3 NMT_PAIR_UNSUPPORTED",
		},
	} {
		got := lingua(strings.Fields(line)...)
		if got.code != exitOK || got.err != "" {
			t.Errorf("lingua %s: exit %d: %s", line, got.code, got.err)
		}
		if diff := cmp.Diff(want, rows(got.out)); diff != "" {
			t.Errorf("lingua %s: (-want +got)\n%s", line, diff)
		}
	}
	checkDirections(t, lingua("directions").out)
	if got := lingua("jobs", done); !slices.ContainsFunc(rows(got.out), func(row string) bool { return strings.HasPrefix(row, "1 n1 ") && strings.HasSuffix(row, " done") }) {
		t.Errorf("the outcome of the attempt is not done:\n%s", got.out)
	}

	for line, into := range map[string]any{
		"nodes": new(wire.NodeList), "nodes n1": new(wire.Node), "jobs": new(wire.JobList), "jobs " + done: new(wire.JobDetail), "directions": new(wire.DirectionList), "metrics": new(wire.Metrics),
		"explain --from en --to zh": new(wire.ExplainResponse), "drain n2": new(wire.Node), "resume n2": new(wire.Node),
		"instances": new(wire.InstanceList), "dlq list": new(wire.DeadLetterList), "dlq purge --all": new(wire.DeadLettersResponse),
	} {
		got := lingua(append(strings.Fields(line), "--json")...)
		if err := json.Unmarshal([]byte(got.out), into); got.code != exitOK || err != nil {
			t.Errorf("lingua %s --json: exit %d, %v\n%s%s", line, got.code, err, got.out, got.err)
		}
	}
	var list wire.NodeList
	if err := json.Unmarshal([]byte(lingua("nodes", "--json").out), &list); err != nil || len(list.Nodes) != 2 || list.Nodes[0].Running != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

// checkDirections checks what lingua directions prints for two nodes, one of which runs a job.
func checkDirections(t *testing.T, printed string) {
	t.Helper()
	directions := regexp.MustCompile(`^DIRECTION NODES READY SLOTS IN FLIGHT FREE JOBS 5 MIN REFUSED WAITING WAIT P95 MS UNCOVERED
en→zh 2 2 5 1 4 (\d+|–) (\d+|–) (\d+|–) (\d+|–)
zh→en 2 2 5 1 4 (\d+|–) (\d+|–) (\d+|–) –$`) // the statistics come later
	if got := strings.Join(rows(printed), "\n"); !directions.MatchString(got) {
		t.Errorf("lingua directions:\n%s", got)
	}
}

// recentAge is the age of an event of these tests on a busy machine.
var recentAge = regexp.MustCompile(`\d+s ago$`)

// rows returns the lines of a table with single spaces.
func rows(table string) []string {
	var out []string
	for line := range strings.Lines(table) {
		out = append(out, recentAge.ReplaceAllString(strings.Join(strings.Fields(line), " "), "now"))
	}
	return out
}

// TestDrainAndResume checks the output of both commands and the verdict of explain after each.
func TestDrainAndResume(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "n1", 2)
	const warning = "lingua: without n1, no ready node is left for en→zh, zh→en\n"
	for _, c := range []struct{ args, want, explained, warning string }{
		{
			"drain n1 --dry-run", "without n1: 100.0 % of the slots of ready nodes are missing; its jobs in flight stay with it: 0\n" +
				"directions without a ready node: en→zh, zh→en\ndirections with one: none\n", "OK", "",
		},
		{"drain n1", "n1 gets no new jobs (draining, 0 of 2 slots in use)\n", "ALL_CANDIDATES_FULL_OR_FAILED", warning},
		{"resume n1", "n1 gets new jobs again (ready, 0 of 2 slots in use)\n", "OK", ""},
	} {
		if got := runCommand(t, append(strings.Fields(c.args), "--server", s.url)...); got.code != exitOK || got.out != c.want || got.err != c.warning {
			t.Errorf("lingua %s: exit %d, want %q and %q, got %q and %q", c.args, got.code, c.want, c.warning, got.out, got.err)
		}
		if got := runCommand(t, "explain", "--from", "en", "--to", "zh", "--server", s.url); !strings.Contains(got.out, c.explained) {
			t.Errorf("after lingua %s: want %s\n%s", c.args, c.explained, got.out)
		}
	}
	if got := runCommand(t, "nodes", "remove", "n1", "--server", s.url); got.code != exitOK || got.err != warning {
		t.Errorf("lingua nodes remove: exit %d, want %q, got %q%s", got.code, warning, got.out, got.err)
	}
}

// limitedNode returns a node with four slots, of which only some may be granted, for some milliseconds from now; 0: no end is planned.
func limitedNode(slots int, left int64) wire.Node {
	a := &wire.Admission{Slots: slots, Reason: "failing", Times: 1}
	if left != 0 {
		a.UntilMS = time.Now().UnixMilli() + left
	}
	return wire.Node{Online: true, Health: "ready", MaxConcurrentJobs: 4, Admission: a}
}

// TestNodeHealthColumn checks the column for every state of a node; an offline node is not shown as silent.
func TestNodeHealthColumn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			node wire.Node
			want string
		}{
			{wire.Node{Online: true, Health: "ready"}, "ready"},
			{wire.Node{Online: true, Health: "ready", Held: true}, "ready, held"},
			{wire.Node{Health: "ready"}, "silent"},
			{wire.Node{Health: "offline"}, "offline"},
			{wire.Node{Online: true, Health: "ready", Disconnected: true}, "disconnected"},
			{wire.Node{Online: true, Health: "ready", Disconnected: true, SilentSinceMS: time.Now().UnixMilli() - 3100}, "disconnected, silent 3s"},
			{wire.Node{Health: "offline", Disconnected: true}, "offline"},
			{wire.Node{Online: true, Health: "ready", SetAsideMS: 4000}, "ready, set aside 4s"},
			{limitedNode(0, 25_400), "ready, ejected 25s"},
			{limitedNode(0, -5000), "ready, ejected"},
			{limitedNode(0, 0), "ready, ejected"},
			{limitedNode(1, 25_400), "ready, limited to 1 of 4"},
			{limitedNode(4, 25_400), "ready"},
		} {
			var out bytes.Buffer
			table := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
			c.node.NodeID = "n1"
			writeNodes(table, []wire.Node{c.node})
			if err := table.Flush(); err != nil || !strings.Contains(out.String(), "n1    "+c.want+"  ") {
				t.Errorf("want %s:\n%s%v", c.want, out.String(), err)
			}
		}
	})
}

// TestErrorResponse checks that an error response exits with 1 and prints the error of the scheduler.
func TestErrorResponse(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for line, want := range map[string]string{
		"nodes unknown":                      "NOT_FOUND",
		"nodes a/b":                          "INVALID_REQUEST",
		"jobs unknown":                       "NOT_FOUND",
		"drain unknown":                      "NOT_FOUND",
		"resume unknown":                     "NOT_FOUND",
		"explain --from en --to en":          "same language",
		"explain --from klingon? --to en":    "src_lang",
		"explain --from en --to zh --strict": "options.strict",
	} {
		got := runCommand(t, append(strings.Fields(line), "--server", s.url)...)
		if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, want) {
			t.Errorf("lingua %s: exit %d, want 1 and %q\n%s%s", line, got.code, want, got.out, got.err)
		}
	}
}

// TestExplainFlags checks that every flag reaches the request.
func TestExplainFlags(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	s.registerNode(t, "n1", 1)
	for line, reason := range map[string]string{
		"--tts":            "TTS_LANG_UNSUPPORTED",
		"--service s":      "SERVICE_MISSING",
		"--model m":        "MODEL_MISSING",
		"--feature f":      "FEATURE_MISSING",
		"--region mars":    "OTHER_REGION",
		"--node other":     "PREFERRED_NODE_NOT_CAPABLE",
		"--node n1":        "OK",
		"--session x":      "OK",
		"--tenant acme":    "OK",
		"--node n1 --json": `"verdict": "OK"`,
	} {
		got := runCommand(t, append(strings.Fields("explain --from en --to zh "+line), "--server", s.url)...)
		if got.code != exitOK || !strings.Contains(got.out, reason) {
			t.Errorf("lingua explain %s: exit %d, want %s\n%s%s", line, got.code, reason, got.out, got.err)
		}
	}
}

// TestVersionOutput checks the version as text and as JSON.
func TestVersionOutput(t *testing.T) {
	t.Parallel()
	got := runCommand(t, "version")
	if got.code != exitOK || !strings.HasPrefix(got.out, "lingua "+release+" "+runtime.Version()+"\n") {
		t.Errorf("exit %d %q", got.code, got.out)
	}
	var v wire.VersionResponse
	if err := json.Unmarshal([]byte(runCommand(t, "version", "--json").out), &v); err != nil || v.Version != release || v.Go != runtime.Version() {
		t.Errorf("%+v %v", v, err)
	}
}
