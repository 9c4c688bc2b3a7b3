package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// program is a running program in another language, with everything that it has printed.
type program struct {
	t    *testing.T
	name string
	*clustertest.Process

	mu      sync.Mutex
	events  []event       // a line each
	changed chan struct{} // closed and replaced at every event
	ended   chan struct{} // closed when the process has exited and everything that it printed was read
}

// startScript starts a program of the directory js with its script. It ends with the test.
func startScript(t *testing.T, name, file string, script any) *program {
	t.Helper()
	argument, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", file, string(argument))
	cmd.Dir = "js"
	stdin, err := cmd.StdinPipe() // the program ends when this closes, also if this process is killed
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	t.Cleanup(func() { // after the program was killed
		_ = stdin.Close()
		if t.Failed() {
			t.Logf("%s printed as errors:\n%s", name, stderr.String())
		}
	})
	return startProgram(t, name, cmd)
}

// startProgram starts a program, which ends with the test. Its standard error is read like its standard output unless the command
// has another writer for it.
func startProgram(t *testing.T, name string, cmd *exec.Cmd) *program {
	t.Helper()
	printed, out := io.Pipe()
	cmd.Stdout = out
	if cmd.Stderr == nil {
		cmd.Stderr = out
	}
	cmd.WaitDelay = time.Second
	p := &program{t: t, name: name, changed: make(chan struct{}), ended: make(chan struct{})}
	var err error
	if p.Process, err = clustertest.StartProcess(cmd); err != nil {
		t.Fatalf("start %s: %v", cmd, err)
	}
	go func() {
		defer close(p.ended)
		p.read(printed)
	}()
	go func() {
		<-p.Exited
		_ = out.Close()
	}()
	t.Cleanup(func() {
		p.KillAndWait()
		<-p.ended
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, p.transcript())
		}
	})
	return p
}

// unreadable is the event of a line that is none.
const unreadable = "unreadable"

func (p *program) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Event: unreadable}
		}
		e.line = lines.Text()
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// eventsSoFar returns the events up to now, and a channel that is closed at the next event.
func (p *program) eventsSoFar() ([]event, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events, p.changed
}

// waitEvent returns the first event of a kind that matches, printed before or after the call. match is called once for each
// event.
func (p *program) waitEvent(kind string, match func(event) bool) event {
	p.t.Helper()
	timeout := time.NewTimer(waitTimeout)
	defer timeout.Stop()
	seen := 0
	for {
		events, changed := p.eventsSoFar()
		for ; seen < len(events); seen++ {
			if e := events[seen]; e.Event == kind && (match == nil || match(e)) {
				return e
			}
		}
		select {
		case <-changed:
		case <-p.ended:
			if later, _ := p.eventsSoFar(); len(later) == seen {
				p.t.Fatalf("%s exited (%v) without the event %s", p.name, p.ExitErr, kind)
			}
		case <-timeout.C:
			p.t.Fatalf("%s: no event %s within %v", p.name, kind, waitTimeout)
		}
	}
}

// waitNthEvent returns the nth event of a kind, counted from 1.
func (p *program) waitNthEvent(kind string, n int) event {
	p.t.Helper()
	return p.waitEvent(kind, func(event) bool { n--; return n == 0 })
}

// count returns how many events of a kind were printed.
func (p *program) count(kind string) int {
	events, _ := p.eventsSoFar()
	n := 0
	for _, e := range events {
		if e.Event == kind {
			n++
		}
	}
	return n
}

// stopFor stops the process for a while, like a suspended machine.
func (p *program) stopFor(d time.Duration) {
	p.t.Helper()
	p.stop()
	<-time.After(d) // the fault itself, not a wait for a condition
	p.resume()
}

func (p *program) stop() {
	p.t.Helper()
	if err := p.Stop(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) resume() { p.signal(syscall.SIGCONT) }

func (p *program) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil {
		p.t.Fatalf("%v of %s: %v", s, p.name, err)
	}
}

func (p *program) transcript() string {
	events, _ := p.eventsSoFar()
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintln(&text, e.line)
	}
	return text.String()
}

// waitTimeout is longer than any wait of these tests takes.
const waitTimeout = 90 * time.Second
