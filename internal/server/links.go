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
}

var _ dispatch.Transport = (*Links)(nil)

// NewLinks makes it; others takes jobs to nodes that have no link. The secret signs where they find the sound.
func NewLinks(others dispatch.Transport, secret []byte) *Links {
	return &Links{others: others, sign: secret, nodes: make(map[core.NodeID]*nodeLink)}
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
	if clip != nil && !sendAudio(n.conn, wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}, clip.Data) {
		return errCut
	}
	return nil
}

// sendAudio sends audio in as many frames as it takes.
func sendAudio(to *socket.Conn, job wire.ActiveJob, data []byte) bool {
	for chunk := 0; ; chunk++ {
		n := min(len(data), wire.MaxChunk)
		frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Chunk: chunk, Last: n == len(data)}, data[:n])
		if err != nil || !to.SendBinary(frame) {
			return false
		}
		if data = data[n:]; len(data) == 0 {
			return true
		}
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
