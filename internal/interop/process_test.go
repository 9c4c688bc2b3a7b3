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

	"github.com/lingua-scheduler/lingua/internal/child"
)

// process is a program of the directory js, and everything it has printed.
type process struct {
	t    *testing.T
	name string
	*child.Process

	mu      sync.Mutex
	events  []event
	changed chan struct{} // closed and replaced at every event
}

// run starts a program with its script. It ends with the test.
func run(t *testing.T, name, program string, script any) *process {
	t.Helper()
	argument, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", program, string(argument))
	cmd.Dir = "js"
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe() // the program ends when this closes, should this process die
	if err != nil {
		t.Fatal(err)
	}
	stdout, out := io.Pipe()
	var complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaints
	p := &process{t: t, name: name, changed: make(chan struct{})}
	if p.Process, err = child.Start(cmd); err != nil {
		t.Fatalf("start node, which must be version 20 or newer: %v", err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(stdout)
	}()
	go func() {
		<-p.Exited
		_ = out.Close()
	}()
	t.Cleanup(func() {
		p.KillAndWait()
		_ = stdin.Close()
		<-read
		if t.Failed() {
			t.Logf("%s printed:\n%s%s", name, p.transcript(), complaints.String())
		}
	})
	return p
}

func (p *process) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			e = event{Event: "unreadable"}
		}
		e.line = lines.Text()
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

// all is what it has printed so far.
func (p *process) all() ([]event, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events, p.changed
}

// await returns the first event of a kind that fits, printed before or after the call; fits sees each event once.
func (p *process) await(kind string, fits func(event) bool) event {
	p.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	seen := 0
	for {
		events, changed := p.all()
		for ; seen < len(events); seen++ {
			if e := events[seen]; e.Event == kind && (fits == nil || fits(e)) {
				return e
			}
		}
		select {
		case <-changed:
		case <-p.Exited:
			if again, _ := p.all(); len(again) == seen {
				p.t.Fatalf("%s ended (%v) without the event %s", p.name, p.ExitErr, kind)
			}
		case <-timeout.C:
			p.t.Fatalf("%s: no event %s within %v", p.name, kind, patience)
		}
	}
}

// awaitNth returns the nth event of a kind, counted from 1.
func (p *process) awaitNth(kind string, n int) event {
	p.t.Helper()
	return p.await(kind, func(event) bool { n--; return n == 0 })
}

// count is how many events of a kind it has printed.
func (p *process) count(kind string) int {
	events, _ := p.all()
	n := 0
	for _, e := range events {
		if e.Event == kind {
			n++
		}
	}
	return n
}

// stop stops it for a while, as a suspended machine would be.
func (p *process) stop(d time.Duration) {
	p.t.Helper()
	p.halt()
	<-time.After(d) // the fault itself, not a wait for something
	p.resume()
}

func (p *process) halt() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	poll(p.t, "the process stops", p.Stopped)
}

func (p *process) resume() { p.signal(syscall.SIGCONT) }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Signal(s); err != nil {
		p.t.Fatalf("%v of %s: %v", s, p.name, err)
	}
}

func (p *process) transcript() string {
	events, _ := p.all()
	var text strings.Builder
	for _, e := range events {
		fmt.Fprintln(&text, e.line)
	}
	return text.String()
}

// patience is longer than anything may take.
const patience = 90 * time.Second

// poll looks at a state of another process, which has no way to report it.
func poll(t *testing.T, what string, reached func() bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !reached() {
		select {
		case <-again.C:
		case <-timeout.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
