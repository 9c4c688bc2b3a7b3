package interop

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// language is a language in which the directory examples has a node and a session.
type language struct {
	extension   string
	interpreter func() (string, error)
}

var languages = map[string]language{
	"javascript": {"js", func() (string, error) { return exec.LookPath("node") }},
	"python":     {"py", findPython},
}

// findPython finds an interpreter with the package websockets. Debian installs the package for its own interpreter, which need not
// be the first in PATH.
var findPython = sync.OnceValues(func() (string, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import websockets").Run() == nil {
			return python, nil
		}
	}
	return "", errors.New("no Python has the package websockets; install it with: make tools")
})

// exampleCommand returns the command of an example: the node or the session of a language.
func exampleCommand(t *testing.T, lang, program string, args ...string) *exec.Cmd {
	t.Helper()
	skipShort(t)
	interpreter, err := languages[lang].interpreter()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "examples", lang)
	if lang == "javascript" {
		requireModules(t, dir)
	}
	return commandIn(t, dir, interpreter, append([]string{program + "." + languages[lang].extension}, args...)...)
}

// commandIn returns a command that runs in a directory.
func commandIn(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// urlArguments returns the arguments with which an example connects to an instance. It can go to the others after open was called:
// an example begins at a random address.
func (c *testCluster) urlArguments(first int) (args []string, open func()) {
	c.t.Helper()
	args = []string{"--url", c.instances[first].URL()}
	var others []*proxy
	for n, i := range c.instances {
		if n != first {
			p := newProxy(c.t, i.Addr())
			others, args = append(others, p), append(args, "--url", "http://"+p.address)
		}
	}
	return args, func() {
		for _, p := range others {
			p.open()
		}
	}
}

// startExampleNode starts the node of a language on one instance and waits until it is registered.
func (c *testCluster) startExampleNode(lang string, first int) *program {
	c.t.Helper()
	id := fmt.Sprintf("n-%d", len(c.nodes))
	args, open := c.urlArguments(first)
	p := startProgram(c.t, id, exampleCommand(c.t, lang, "node", append(args, "--token", nodeToken, "--id", id)...))
	c.nodes = append(c.nodes, p)
	p.waitLine("registered as " + id)
	open()
	return p
}

// exampleSession is a running session of an example.
type exampleSession struct {
	*program
	want []exampleResult
}

// exampleResult is what the session of an example prints for an utterance.
type exampleResult struct {
	Utterance int    `json:"utterance"`
	TextSrc   string `json:"text_src"`
	TextTgt   string `json:"text_tgt"`
	Error     string `json:"error"`
	Reason    string `json:"reason"`
}

// startExampleSession starts the session of a language on one instance, with utterances of given durations, each of which is a file.
func (c *testCluster) startExampleSession(lang string, first int, ms ...int) *exampleSession {
	c.t.Helper()
	args, open := c.urlArguments(first)
	args = append(args, "--token", c.mint("session-of-"+lang), "--mode", "manual")
	s := &exampleSession{}
	for n, duration := range ms {
		audio := noise(duration)
		text := fmt.Sprintf("%d bytes of en, sha256 %.4x", len(audio), sha256.Sum256(audio))
		s.want = append(s.want, exampleResult{Utterance: n, TextSrc: text, TextTgt: strings.ToUpper(text)})
		content := audio
		if n%2 == 0 {
			content = wavFile(16_000, audio)
		}
		args = append(args, writeFile(c.t, content))
	}
	s.program = startProgram(c.t, "the session in "+lang, exampleCommand(c.t, lang, "session", args...))
	s.waitLine("has started")
	open()
	return s
}

// noise returns loud PCM of 16 kHz, which is different each time.
func noise(ms int) []byte {
	audio := make([]byte, 0, 32*ms)
	for range 16 * ms {
		audio = binary.LittleEndian.AppendUint16(audio, uint16(rand.IntN(1<<16)))
	}
	return audio
}

// wavFile returns a WAV file with a chunk before the audio that a reader has to skip.
func wavFile(rate uint32, audio []byte) []byte {
	le := binary.LittleEndian
	chunk := func(name string, body []byte) []byte {
		return append(le.AppendUint32([]byte(name), uint32(len(body))), body...)
	}
	format := le.AppendUint16(le.AppendUint16(nil, 1), 1) // PCM, mono
	format = le.AppendUint32(le.AppendUint32(format, rate), 2*rate)
	format = le.AppendUint16(le.AppendUint16(format, 2), 16)
	return chunk("RIFF", slices.Concat([]byte("WAVE"), chunk("fmt ", format), chunk("LIST", []byte("INFO")), chunk("data", audio)))
}

func writeFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audio")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitLine waits for a line that contains a text, and returns it.
func (p *program) waitLine(text string) string { return p.waitNthLine(text, 1) }

// waitNthLine waits for the nth line that contains a text, counted from 1, and returns it.
func (p *program) waitNthLine(text string, n int) string {
	p.t.Helper()
	return p.waitEvent(unreadable, func(e event) bool {
		if strings.Contains(e.line, text) {
			n--
		}
		return n == 0
	}).line
}

// results returns what the session has printed on standard output.
func (s *exampleSession) results() []exampleResult {
	s.t.Helper()
	var all []exampleResult
	events, _ := s.eventsSoFar()
	for _, e := range events {
		if e.Event == unreadable {
			continue // for people, on standard error
		}
		var r exampleResult
		if err := json.Unmarshal([]byte(e.line), &r); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// finish waits for the end of the session and returns its results.
func (s *exampleSession) finish() []exampleResult {
	s.t.Helper()
	if err := s.WaitExit(waitTimeout); err != nil {
		s.t.Errorf("%s: %v", s.name, err)
	}
	<-s.ended
	return s.results()
}

// check waits for the end of the session and checks that every utterance ended once, in order, with its own result.
func (s *exampleSession) check() {
	s.t.Helper()
	if diff := cmp.Diff(s.want, s.finish()); diff != "" {
		s.t.Errorf("%s printed (-want +got):\n%s", s.name, diff)
	}
}
