package interop

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// pairs calls a test for combinations of a language for the node with one for the session.
func pairs(t *testing.T, sameLanguage bool, test func(t *testing.T, node, session string)) {
	t.Helper()
	for node := range languages {
		for session := range languages {
			if node != session || sameLanguage {
				t.Run(fmt.Sprintf("%s-node-%s-session", node, session), func(t *testing.T) {
					t.Parallel()
					test(t, node, session)
				})
			}
		}
	}
}

// memory is the embedded store, which a restart empties.
const memory = "memory"

// patient makes utterances wait for a node that is still starting or reconnecting, for longer than by default: processes take
// seconds to start on a busy machine.
var patient = []string{"LINGUA_SCHEDULER_SESSIONS_JOIN_WAIT_MS=60000", "LINGUA_SCHEDULER_SESSIONS_WAIT_MS=60000"}

func TestExamplesTogether(t *testing.T) {
	t.Parallel()
	pairs(t, true, func(t *testing.T, node, session string) {
		c := startInstances(t, memory, 1)
		c.startExampleNode(node, 0)
		c.startExampleSession(session, 0, 700, 450, 1200, 300).check()
	})
}

// One of two instances ends while a node works on a job and the session speaks. The clients continue on the other one.
func TestExamplesContinueOnAnotherInstance(t *testing.T) {
	t.Parallel()
	for fault, end := range map[string]func(*testCluster, *clustertest.Instance){
		"killed":     func(_ *testCluster, i *clustertest.Instance) { i.Kill() },
		"terminated": (*testCluster).terminate,
	} {
		for where, first := range map[string]int{"with-the-node": 0, "without-the-node": 1} {
			t.Run(fault+"-"+where, func(t *testing.T) {
				t.Parallel()
				pairs(t, false, func(t *testing.T, node, session string) {
					c := startInstances(t, redistest.Start(t).URL(), 2, patient...)
					n := c.startExampleNode(node, first)
					s := c.startExampleSession(session, 0, utteranceMS...)
					n.waitNthLine("assigned", 2)
					end(c, c.instances[0])
					c.startExampleNode(session, 1) // for a job whose attempt is lost with the instance
					s.check()
					s.waitLine("goes on at audio frame")
					if first == 0 {
						n.waitNthLine("registered as", 2)
					}
					if fault == "terminated" {
						c.checkExit(c.instances[0])
					}
				})
			})
		}
	}
}

// utteranceMS are the durations of utterances during which an instance ends. They are longer than a node works, so that the session
// speaks while the node does.
var utteranceMS = []int{900, 1100, 1000, 1200, 800, 1000, 900, 1100, 1000}

// The only scheduler, with its store in memory, is restarted on the same address while the node works and the session speaks. Both
// reconnect by themselves; the scheduler has forgotten the session, which starts anew with the audio that has no result.
func TestExamplesSurviveRestart(t *testing.T) {
	t.Parallel()
	for fault, end := range map[string]func(*clustertest.Instance) error{
		"killed":     func(i *clustertest.Instance) error { i.Kill(); return nil },
		"terminated": func(i *clustertest.Instance) error { return i.Terminate(waitTimeout) },
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			pairs(t, false, func(t *testing.T, node, session string) {
				c := startInstances(t, memory, 1, patient...)
				n := c.startExampleNode(node, 0)
				s := c.startExampleSession(session, 0, utteranceMS...)
				n.waitNthLine("assigned", 2)
				if err := end(c.instances[0]); err != nil {
					t.Fatal(err)
				}
				if err := c.instances[0].Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.check()
				s.waitLine("starting another")
				n.waitNthLine("registered as", 2)
			})
		})
	}
}

// In mode auto the scheduler ends utterances at pauses, here in one recording. At its rate 100 ms are no whole number of samples.
func TestExampleSessionPauses(t *testing.T) {
	t.Parallel()
	for lang := range languages {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			c := startInstances(t, memory, 1)
			c.startExampleNode(lang, 0)
			pause := make([]byte, 32*1500)
			file := writeFile(t, wavFile(11_025, slices.Concat(noise(700), pause, noise(1200), pause)))
			s := &exampleSession{program: startProgram(t, "the session", exampleCommand(t, lang, "session",
				"--url", c.instances[0].URL(), "--token", c.mint("session"), file))}
			results := s.finish()
			if len(results) != 2 {
				t.Fatalf("%d results, want 2: %+v", len(results), results)
			}
			for n, speech := range []int{32 * 700, 32 * 1200} {
				var size int
				if _, err := fmt.Sscanf(results[n].TextSrc, "%d bytes of en", &size); err != nil || results[n].Utterance != n || size < speech || size > speech+len(pause) {
					t.Errorf("result %d is %+v, want %d bytes and not much more (%v)", n, results[n], speech, err)
				}
			}
		})
	}
}

// A node that is stopped finishes its job and exits; another node does the rest.
func TestExampleNodeStops(t *testing.T) {
	t.Parallel()
	pairs(t, false, func(t *testing.T, node, session string) {
		c := startInstances(t, memory, 1, patient...)
		first := c.startExampleNode(node, 0)
		s := c.startExampleSession(session, 0, 900, 700, 800)
		first.waitLine("assigned")
		first.signal(syscall.SIGTERM)
		if err := first.WaitExit(waitTimeout); err != nil {
			t.Errorf("the node: %v", err)
		}
		var registered wire.NodeList
		if c.call(http.MethodGet, "/v1/nodes", struct{}{}, &registered); len(registered.Nodes) > 0 {
			t.Errorf("the node has stopped and is still registered: %+v", registered.Nodes)
		}
		c.startExampleNode(session, 0)
		s.check()
	})
}

// An operator cancels a job of a node, and drains the node, through another instance than that of the node.
func TestExampleNodeObeysOperator(t *testing.T) {
	t.Parallel()
	for lang := range languages {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			c := startInstances(t, redistest.Start(t).URL(), 2)
			node := c.startExampleNode(lang, 1)
			c.waitForVerdict("OK") // the other instance knows the node
			cancelled := 0
			for n := 1; cancelled == 0; n++ { // the node may be faster than the operator
				var job wire.DispatchResponse
				c.call(http.MethodPost, "/v1/dispatch/f2f", wire.DispatchRequest{SessionID: "s", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}, &job)
				node.waitNthLine("assigned", n)
				var answer wire.CancelResponse
				c.call(http.MethodPost, "/v1/jobs/"+job.JobID+"/cancel", struct{}{}, &answer)
				if answer.Cancelled {
					node.waitLine(job.JobID + ": cancelled")
					cancelled++
				}
			}
			var node0 wire.Node
			c.call(http.MethodPost, "/v1/nodes/n-0/drain", struct{}{}, &node0)
			node.waitLine("drained")
			c.call(http.MethodPost, "/v1/nodes/n-0/resume", struct{}{}, &node0)
			node.waitLine("no longer drained")
		})
	}
}

// A program that cannot work says why in one line, without a stack trace, and exits with code 1, or with 2 if its command line is
// wrong.
func TestExamplesRefuse(t *testing.T) {
	t.Parallel()
	c := startInstances(t, memory, 1)
	url := c.instances[0].URL()
	stereo := wavFile(16_000, noise(100))
	stereo[22] = 2
	cases := map[string]struct {
		program string
		args    []string
		code    int
		want    string
	}{
		"help of a node":    {"node", []string{"--help"}, 0, "--slots"},
		"help of a session": {"session", []string{"--help"}, 0, "--mode"},
		"unknown option":    {"node", []string{"--color"}, 2, "--color"},
		"wrong token":       {"node", []string{"--url", url, "--token", "wrong"}, 1, "401"},
		"wrong name":        {"node", []string{"--url", url, "--token", nodeToken, "--id", "other"}, 1, "FORBIDDEN: node_id"},
		"no slots":          {"node", []string{"--url", url, "--token", nodeToken, "--id", "n-0", "--slots=-1"}, 1, "max_concurrent_jobs"},
		"wrong language":    {"session", []string{"--url", url, "--token", operatorKey, "--to", "!"}, 1, "langs"},
		"not a scheduler":   {"session", []string{"--url", url + "/v1"}, 1, "404"},
		"not a URL":         {"session", []string{"--url", "localhost:5010"}, 1, "localhost:5010: not the URL of a scheduler"},
		"no such file":      {"session", []string{"--url", url, "missing.wav"}, 1, "missing.wav"},
		"stereo":            {"session", []string{"--url", url, writeFile(t, stereo)}, 1, "not a WAV file with PCM of 16 bits, mono"},
		"not a WAV file":    {"session", []string{"--url", url, writeFile(t, []byte("RIFF, but no more"))}, 1, "not a WAV file"},
		"wrong rate":        {"session", []string{"--url", url, "--rate", "1"}, 1, "from 8000 to 48000"},
		"two rates":         {"session", []string{"--url", url, writeFile(t, wavFile(8_000, noise(100))), writeFile(t, wavFile(16_000, noise(100)))}, 1, "different sample rates"},
	}
	for lang := range languages {
		for name, test := range cases {
			t.Run(lang+"-"+name, func(t *testing.T) {
				t.Parallel()
				cmd := exampleCommand(t, lang, test.program, test.args...)
				out, err := cmd.CombinedOutput()
				if code := cmd.ProcessState.ExitCode(); code != test.code {
					t.Errorf("exit code %d (%v), want %d", code, err, test.code)
				}
				if lines := bytes.Count(out, []byte("\n")); !bytes.Contains(out, []byte(test.want)) || test.code == 1 && lines != 1 {
					t.Errorf("printed %d lines:\n%s\nwant %q", lines, out, test.want)
				}
			})
		}
	}
}

// maxExampleLines is how long a file of an example may be: somebody reads it in one sitting.
const maxExampleLines = 200

func TestExamplesAreShort(t *testing.T) {
	t.Parallel()
	for lang, l := range languages {
		files, err := filepath.Glob(filepath.Join("..", "..", "examples", lang, "*."+l.extension))
		if err != nil || len(files) != 3 {
			t.Errorf("%s has %d files (%v), want a node, a session and their connection", lang, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if lines := bytes.Count(text, []byte("\n")); lines > maxExampleLines {
				t.Errorf("%s has %d lines, more than %d", file, lines, maxExampleLines)
			}
		}
	}
}
