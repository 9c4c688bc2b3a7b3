package redisstore_test

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// rpcMessage is one line of JSON between the test and one of its schedulers, in either direction.
type rpcMessage struct {
	ID      uint64 `json:",omitempty"` // of a request; 0: it needs no reply
	ReplyTo uint64 `json:",omitempty"` // the ID of the request, in a reply
	Kind    string `json:",omitempty"` // of a request or a report
	Result  string `json:",omitempty"` // of a reply

	Node    core.NodeID       `json:",omitempty"`
	Epoch   core.Epoch        `json:",omitempty"`
	Job     core.JobID        `json:",omitempty"`
	Attempt int               `json:",omitempty"`
	Slots   int               `json:",omitempty"`
	Seq     uint64            `json:",omitempty"`
	Jobs    []store.ActiveJob `json:",omitempty"` // the jobs that a node lists; in replies: those that it should cancel
	At      int64             `json:",omitempty"` // assign: when the slot was requested, in Unix milliseconds
	Version int               `json:",omitempty"` // ended: of the record
	Decided bool              `json:",omitempty"` // ended: by this call
	Calls   int64             `json:",omitempty"` // that the process has made to the store so far
}

// rpcConn is one end of the connection between two processes. Reading never waits for writing, so that two ends that both send much do
// not block each other.
type rpcConn struct {
	calls func() int64 // calls to the store so far; nil: this end makes none

	writing sync.Mutex
	encoder *json.Encoder

	mu      sync.Mutex
	lastID  uint64
	waiting map[uint64]chan rpcMessage
	closed  bool
}

func newRPCConn(out io.Writer, calls func() int64) *rpcConn {
	return &rpcConn{calls: calls, encoder: json.NewEncoder(out), waiting: make(map[uint64]chan rpcMessage)}
}

// send sends a message. If the other end has ended, serve finds out.
func (p *rpcConn) send(n rpcMessage) {
	if p.calls != nil {
		n.Calls = p.calls()
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.encoder.Encode(n)
}

// call sends a request and waits for its reply. It reports false when the other end has ended: its progress is unknown then.
func (p *rpcConn) call(n rpcMessage) (rpcMessage, bool) {
	answer := make(chan rpcMessage, 1)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return rpcMessage{}, false
	}
	p.lastID++
	n.ID = p.lastID
	p.waiting[n.ID] = answer
	p.mu.Unlock()
	p.send(n)
	n, ok := <-answer
	return n, ok
}

// serve reads messages until the other end has ended. Requests are handled concurrently, reports in order. The last line of a process that
// was killed may be incomplete, and is ignored.
func (p *rpcConn) serve(in io.Reader, onMessage func(rpcMessage), onRequest func(rpcMessage) rpcMessage) {
	var answers sync.WaitGroup
	defer answers.Wait()
	defer p.close()
	for lines := json.NewDecoder(in); ; {
		var n rpcMessage
		if lines.Decode(&n) != nil {
			return
		}
		onMessage(n)
		switch {
		case n.ReplyTo != 0:
			p.handleReply(n)
		case n.ID != 0:
			answers.Go(func() {
				a := onRequest(n)
				a.ReplyTo = n.ID
				p.send(a)
			})
		}
	}
}

func (p *rpcConn) handleReply(n rpcMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer, ok := p.waiting[n.ReplyTo]; ok {
		delete(p.waiting, n.ReplyTo)
		answer <- n
	}
}

// close ends all waiting calls.
func (p *rpcConn) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for id, answer := range p.waiting {
		delete(p.waiting, id)
		close(answer)
	}
}
