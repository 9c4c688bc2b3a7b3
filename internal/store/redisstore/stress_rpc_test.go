package redisstore_test

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// note is one line between the test and one of its schedulers, in either direction.
type note struct {
	ID   uint64 `json:",omitempty"` // a question has a number; 0: nobody waits for an answer
	Re   uint64 `json:",omitempty"` // the question that this answers
	Kind string `json:",omitempty"` // what is asked or told
	Said string `json:",omitempty"` // what is answered

	Node    core.NodeID       `json:",omitempty"`
	Epoch   core.Epoch        `json:",omitempty"`
	Job     core.JobID        `json:",omitempty"`
	Attempt int               `json:",omitempty"`
	Slots   int               `json:",omitempty"`
	Seq     uint64            `json:",omitempty"`
	Jobs    []store.ActiveJob `json:",omitempty"` // a node's list; in answers: what it should stop
	At      int64             `json:",omitempty"` // assign: when the slot was asked for, in Unix milliseconds
	Version int               `json:",omitempty"` // ended: of the record
	Decided bool              `json:",omitempty"` // ended: by this very call
	Calls   int64             `json:",omitempty"` // that the process has made to the store so far
}

// pipe is one end of the lines between two processes. Reading never waits for writing, so that two ends which both
// have much to say do not wait for each other.
type pipe struct {
	calls func() int64 // nil: this end makes none

	writing sync.Mutex
	lines   *json.Encoder

	mu      sync.Mutex
	asked   uint64
	waiting map[uint64]chan note
	ended   bool
}

func newPipe(out io.Writer, calls func() int64) *pipe {
	return &pipe{calls: calls, lines: json.NewEncoder(out), waiting: make(map[uint64]chan note)}
}

// tell writes a line. If the other end is gone the reader finds out.
func (p *pipe) tell(n note) {
	if p.calls != nil {
		n.Calls = p.calls()
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.lines.Encode(n)
}

// ask writes a line and waits for its answer. It reports false when the other end is gone: whether it did what it
// was asked to is not known then.
func (p *pipe) ask(n note) (note, bool) {
	answer := make(chan note, 1)
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return note{}, false
	}
	p.asked++
	n.ID = p.asked
	p.waiting[n.ID] = answer
	p.mu.Unlock()
	p.tell(n)
	n, ok := <-answer
	return n, ok
}

// serve reads lines until the other end is gone. Questions are answered side by side; what is merely told is taken in
// in order. The last line of a process that was killed may be cut off: it was never said.
func (p *pipe) serve(in io.Reader, heard func(note), answer func(note) note) {
	var answers sync.WaitGroup
	defer answers.Wait()
	defer p.end()
	for lines := json.NewDecoder(in); ; {
		var n note
		if lines.Decode(&n) != nil {
			return
		}
		heard(n)
		switch {
		case n.Re != 0:
			p.answered(n)
		case n.ID != 0:
			answers.Go(func() {
				a := answer(n)
				a.Re = n.ID
				p.tell(a)
			})
		}
	}
}

func (p *pipe) answered(n note) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer, ok := p.waiting[n.Re]; ok {
		delete(p.waiting, n.Re)
		answer <- n
	}
}

// end lets those go who wait for an answer.
func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for id, answer := range p.waiting {
		delete(p.waiting, id)
		close(answer)
	}
}
