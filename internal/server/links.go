package server

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/bus"
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
	bus    *bus.Bus                          // nil when this instance is alone
	within time.Duration                     // how long a job may be on its way to another instance
	owner  func(core.NodeID) core.InstanceID // with whom a node is connected, as far as it is known here

	made atomic.Uint64 // connections so far

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

// Address is where others reach this instance.
func (l *Links) Address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.base
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
	file, err := clip.File(core.JobID(a.JobID))
	if err != nil {
		return nil, err
	}
	base, at := l.Address(), *a
	at.AudioRef = l.sign.audioURL(base, a, http.MethodGet, "")
	at.Audio = &wire.Audio{AudioFormat: clip.Format, Bytes: int64(len(file)), DurationMS: clip.Length}
	if clip.Ends != nil {
		at.Audio.Container = wire.ContainerOgg
	}
	if clip.Speech {
		at.TTSUpload = l.sign.audioURL(base, a, http.MethodPut, "/tts")
	}
	return &at, nil
}

// Hears reports whether the sound of a job can be had from here.
func (l *Links) Hears(job *core.Job) bool {
	return !strings.HasPrefix(job.AudioRef, session.RefPrefix) || l.sounds.Clip(job.ID) != nil
}

// Listen has audio taken from where sessions keep it.
func (l *Links) Listen(sounds *session.Sounds) { l.sounds = sounds }

// nodeLink is a node that is connected and registered. There is no other way to be one than by serveNode.
type nodeLink struct {
	conn *socket.Conn
	id   core.NodeID
	// connection tells this connection of the node from its earlier and later ones.
	connection uint64
	// Only its reader touches these: what it declares by now, and the attempts whose results were taken and whose speech
	// follows.
	said   core.Node
	speaks speakers

	mu     sync.Mutex
	epoch  core.Epoch
	guests map[wire.ActiveJob]guest
}

// guest is a job that another instance has given a node.
type guest struct {
	from     core.InstanceID
	at       time.Time
	partials bool      // somebody reads them
	last     time.Time // when one was passed on
}

// partialEvery is how often partial results of one job are passed on to another instance, at most.
const partialEvery = 50 * time.Millisecond

const (
	manyGuests = 1024            // from so many on, those that must be over are forgotten
	guestFor   = 5 * time.Minute // after which one must be over
)

// expect remembers which instance has given the node a job: what it has so far goes there.
func (n *nodeLink) expect(job wire.ActiveJob, from core.InstanceID, partials bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.guests == nil {
		n.guests = make(map[wire.ActiveJob]guest)
	}
	now := time.Now()
	if len(n.guests) >= manyGuests {
		maps.DeleteFunc(n.guests, func(_ wire.ActiveJob, g guest) bool { return now.Sub(g.at) > guestFor })
	}
	n.guests[job] = guest{from: from, at: now, partials: partials}
}

// host is the instance to which a partial result of a job should be passed on; empty: none.
func (n *nodeLink) host(job wire.ActiveJob) core.InstanceID {
	n.mu.Lock()
	defer n.mu.Unlock()
	g, now := n.guests[job], time.Now()
	if !g.partials || now.Sub(g.last) < partialEvery {
		return ""
	}
	g.last = now
	n.guests[job] = g
	return g.from
}

// over forgets a job of another instance that is over for the node.
func (n *nodeLink) over(job wire.ActiveJob) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.guests, job)
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

// awaits reports whether a lost link is the node's last one: it has not come back since.
func (l *Links) awaits(n *nodeLink) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away[n.id] == n
}

// connection makes a name for a connection that no other of this instance has. Those of different instances are told
// apart by the node's epoch.
func (l *Links) connection() uint64 { return l.made.Add(1) }

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

// Deliver implements dispatch.Transport.
func (l *Links) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	n := l.get(to.ID)
	if n != nil && n.life() != core.Epoch(a.Epoch) && l.bus != nil && to.Owner != l.bus.Instance() {
		n = nil // it has gone on elsewhere, and this connection has not noticed
	}
	if n == nil {
		at, err := l.fetchable(a)
		switch {
		case err != nil:
			return err
		case to.Callback != "":
			return l.others.Deliver(ctx, to, at)
		}
		return l.deliverElsewhere(ctx, to.Owner, at)
	}
	if n.life() != core.Epoch(a.Epoch) {
		return dispatch.ErrRefused
	}
	job := core.JobID(a.JobID)
	assign := assignment(a)
	var clip *session.Clip
	if strings.HasPrefix(a.AudioRef, session.RefPrefix) {
		if clip = l.sounds.Clip(job); clip == nil {
			return dispatch.ErrNoAudio
		}
		assign.Partials = clip.Partials
		assign.Audio = &wire.Audio{AudioFormat: clip.Format, Bytes: int64(len(clip.Data)), DurationMS: clip.Length}
	}
	if dispatch.Expired(ctx) {
		return fmt.Errorf("%w: it was too late to send it", dispatch.ErrRefused)
	}
	var sent bool
	if clip == nil {
		sent = n.conn.Send(assign)
	} else {
		sent = n.conn.SendWith(assign, soundOf(wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}, clip, 0))
	}
	if !sent {
		return dispatch.ErrRefused
	}
	return nil
}

// soundOf hands out audio in as many frames as it takes, from a chunk on. A chunk has the same number and the same bytes
// however often it is sent.
func soundOf(job wire.ActiveJob, clip *session.Clip, chunk int) func() []byte {
	chunks := clip.Chunks()
	return func() []byte {
		if chunk >= chunks {
			return nil
		}
		h := wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Chunk: chunk, Last: chunk == chunks-1}
		frame, err := wire.AppendBinary(nil, &h, clip.Chunk(chunk))
		if err != nil {
			return nil // the header is ours, and small
		}
		chunk++
		return frame
	}
}

// Cancel implements dispatch.Transport.
func (l *Links) Cancel(ctx context.Context, to core.NodeID, job core.JobID, attempt int) {
	if n := l.get(to); n != nil {
		n.conn.Send(wire.JobCancel{ActiveJob: wire.ActiveJob{JobID: string(job), AttemptID: attempt}})
		return
	}
	if l.tell(ctx, to, kindStop, stopLetter{to, wire.ActiveJob{JobID: string(job), AttemptID: attempt}}) {
		return
	}
	l.others.Cancel(ctx, to, job, attempt)
}

// Drain tells a node that is connected, wherever, that the operator drained or resumed it.
func (l *Links) Drain(ctx context.Context, id core.NodeID, drained bool) {
	if n := l.get(id); n != nil {
		n.conn.Send(wire.Drain{Drained: drained})
		return
	}
	l.tell(ctx, id, kindDrain, drainLetter{id, drained})
}

// GoAway asks every node to connect elsewhere within a while, and closes those who have not by then, each at a moment of
// its own. It returns when nobody is connected, or the context ends.
func (l *Links) GoAway(ctx context.Context, reason string, within time.Duration) {
	var leaving sync.WaitGroup
	l.each(func(n *nodeLink) {
		n.conn.Send(wire.GoAway{Reason: reason, ReconnectMS: within.Milliseconds()})
		leaving.Go(func() {
			late := time.NewTimer(within/2 + time.Duration(rand.Int64N(int64(within/2)+1)))
			defer late.Stop()
			select {
			case <-n.conn.Done():
			case <-late.C:
			case <-ctx.Done():
			}
			n.conn.Close(wire.CloseDraining, wire.Errorf(wire.Internal, "%s: connect again", reason))
		})
	})
	leaving.Wait()
}
