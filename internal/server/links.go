package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// Links knows which nodes are connected here, and takes jobs to them; to others it takes them as before.
type Links struct {
	others dispatch.Transport // for nodes that are not connected

	sign   signer
	sounds *session.Sounds

	mu    sync.Mutex
	base  string // where others reach this instance
	nodes map[core.NodeID]*nodeLink
	away  map[core.NodeID]*nodeLink // whose connection was lost last, while they may come back
	gates map[core.NodeID]*gate
}

// gate lets one at a time decide whether a node is here.
type gate struct {
	sync.Mutex
	users int
}

var _ dispatch.Transport = (*Links)(nil)

// NewLinks makes it; others takes jobs to nodes that have no link. The secret signs where they find the sound.
func NewLinks(others dispatch.Transport, secret []byte) *Links {
	return &Links{
		others: others, sign: secret, nodes: make(map[core.NodeID]*nodeLink), away: make(map[core.NodeID]*nodeLink),
		gates: make(map[core.NodeID]*gate),
	}
}

// decide lets the caller alone decide about a node until it calls what is returned: a node that comes back and the end
// of its grace must not both be right.
func (l *Links) decide(id core.NodeID) (done func()) {
	l.mu.Lock()
	g := l.gates[id]
	if g == nil {
		g = &gate{}
		l.gates[id] = g
	}
	g.users++
	l.mu.Unlock()
	g.Lock()
	return func() {
		g.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if g.users--; g.users == 0 {
			delete(l.gates, id)
		}
	}
}

// Advertise says where others reach this instance.
func (l *Links) Advertise(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = url
}

// fetchable is an assignment for a node that fetches the sound itself.
func (l *Links) fetchable(a *wire.Assignment) (*wire.Assignment, error) {
	if !strings.HasPrefix(a.AudioRef, session.RefPrefix) {
		return a, nil
	}
	clip := l.sounds.Clip(core.JobID(a.JobID))
	if clip == nil {
		return nil, dispatch.ErrNoAudio
	}
	l.mu.Lock()
	base := l.base
	l.mu.Unlock()
	at := *a
	at.AudioRef = l.sign.audioURL(base, a, http.MethodGet, "")
	at.Audio = &wire.Audio{AudioFormat: clip.Format, Bytes: int64(len(clip.Data)), DurationMS: clip.Length}
	if clip.Speech {
		at.TTSUpload = l.sign.audioURL(base, a, http.MethodPut, "/tts")
	}
	return &at, nil
}

// Listen has audio taken from where sessions keep it.
func (l *Links) Listen(sounds *session.Sounds) { l.sounds = sounds }

// nodeLink is a node that is connected and registered. There is no other way to be one than by serveNode.
type nodeLink struct {
	conn *socket.Conn
	id   core.NodeID
	// Only its reader touches these: what it declares by now, and the attempts whose results were taken and whose speech
	// follows.
	said   core.Node
	speaks map[wire.ActiveJob]bool

	mu    sync.Mutex
	epoch core.Epoch
}

func (n *nodeLink) life() core.Epoch {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch
}

// enter makes a link the node's own, and returns the one it replaces.
func (l *Links) enter(n *nodeLink) (old *nodeLink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old = l.nodes[n.id]
	l.nodes[n.id] = n
	delete(l.away, n.id)
	return old
}

// leave takes a link out, and reports whether it was still the node's own.
func (l *Links) leave(n *nodeLink) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.nodes[n.id] != n {
		return false
	}
	delete(l.nodes, n.id)
	l.away[n.id] = n
	return true
}

// lost reports, when the grace of a lost link is over, whether the node has not come back since. It is asked once.
func (l *Links) lost(n *nodeLink) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away[n.id] != n {
		return false
	}
	delete(l.away, n.id)
	return true
}

func (l *Links) get(id core.NodeID) *nodeLink {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[id]
}

// Len is how many nodes are connected here.
func (l *Links) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.nodes)
}

// each calls fn with every link.
func (l *Links) each(fn func(*nodeLink)) {
	l.mu.Lock()
	all := make([]*nodeLink, 0, len(l.nodes))
	for _, n := range l.nodes {
		all = append(all, n)
	}
	l.mu.Unlock()
	for _, n := range all {
		fn(n)
	}
}

// errCut says that a connection broke while a job was on its way.
var errCut = errors.New("the connection broke while the job was sent")

// Deliver implements dispatch.Transport.
func (l *Links) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	n := l.get(to.ID)
	if n == nil {
		if to.Callback == "" {
			return dispatch.ErrRefused // it is connected elsewhere, or nowhere
		}
		at, err := l.fetchable(a)
		if err != nil {
			return err
		}
		return l.others.Deliver(ctx, to, at)
	}
	if n.life() != core.Epoch(a.Epoch) {
		return dispatch.ErrRefused
	}
	job := core.JobID(a.JobID)
	assign := wire.JobAssign{
		JobID: a.JobID, AttemptID: a.AttemptID, SessionID: a.SessionID, SrcLang: a.SrcLang, TgtLang: a.TgtLang,
		Options: a.Options, DeadlineMS: a.DeadlineMS, TimeoutMS: a.TimeoutMS,
	}
	var clip *session.Clip
	switch {
	case strings.HasPrefix(a.AudioRef, session.RefPrefix):
		if clip = l.sounds.Clip(job); clip == nil {
			return dispatch.ErrNoAudio
		}
		assign.Partials = clip.Partials
		assign.Audio = &wire.Audio{AudioFormat: clip.Format, Bytes: int64(len(clip.Data)), DurationMS: clip.Length}
	case a.AudioRef != "":
		assign.Audio = &wire.Audio{Ref: a.AudioRef}
	}
	if !n.conn.Send(assign) {
		return dispatch.ErrRefused
	}
	if clip != nil && !n.conn.Feed(soundOf(wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}, clip.Data)) {
		return errCut
	}
	return nil
}

// soundOf hands out audio in as many frames as it takes.
func soundOf(job wire.ActiveJob, data []byte) func() []byte {
	chunk, last := 0, false
	return func() []byte {
		if last {
			return nil
		}
		n := min(len(data), wire.MaxChunk)
		last = n == len(data)
		frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Chunk: chunk, Last: last}, data[:n])
		if err != nil {
			return nil // the header is ours, and small
		}
		chunk++
		data = data[n:]
		return frame
	}
}

// Cancel implements dispatch.Transport.
func (l *Links) Cancel(ctx context.Context, to core.NodeID, job core.JobID, attempt int) {
	if n := l.get(to); n != nil {
		n.conn.Send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}})
		return
	}
	l.others.Cancel(ctx, to, job, attempt)
}

// Drain tells a node that is connected here that the operator drained or resumed it.
func (l *Links) Drain(id core.NodeID, drained bool) {
	if n := l.get(id); n != nil {
		n.conn.Send(wire.Drain{Drained: drained})
	}
}

// GoAway asks every node to connect elsewhere.
func (l *Links) GoAway(reason string, within time.Duration) {
	l.each(func(n *nodeLink) { n.conn.Send(wire.GoAway{Reason: reason, ReconnectMS: within.Milliseconds()}) })
}
