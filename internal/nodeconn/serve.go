package nodeconn

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

// Sessions receives what nodes send beside the outcomes of jobs.
type Sessions interface {
	// DeliverPartial sends a partial result to its session, if that is on this instance; SendPartial sends it to another
	// instance.
	DeliverPartial(p *wire.JobPartial)
	SendPartial(ctx context.Context, to core.InstanceID, p *wire.JobPartial)
	// DeliverSpeech sends a chunk of a spoken result to its session. LoseSpeech gives up the speech of an attempt.
	DeliverSpeech(h *wire.BinaryHeader, data []byte) bool
	LoseSpeech(job wire.ActiveJob)
}

// ServerOptions are the dependencies of a Server.
type ServerOptions struct {
	Instance core.InstanceID
	Conns    *Conns
	Jobs     *dispatch.Dispatcher
	Nodes    *nodes.Registry
	Sessions Sessions
	Read     *convert.Reader
	Log      *slog.Logger
	// HeartbeatInterval is how often nodes are asked to send a heartbeat.
	HeartbeatInterval time.Duration
	// Presence is how long a node counts as alive after a heartbeat.
	Presence time.Duration
	// Refused is called for each connection that was refused before its node was registered; nil: it is not called.
	Refused func(remote, node string, e *wire.Error)
	// FirstMessage is within what time a new connection must register, Grace how long a node that lost its connection has to
	// reconnect before its jobs move.
	FirstMessage, Grace time.Duration
}

// Server serves the connections of nodes.
type Server struct {
	ServerOptions
	work *run.Group // the goroutines of connections, and grace periods
}

// NewServer makes a server. End it with Close.
func NewServer(o ServerOptions) *Server {
	if o.Refused == nil {
		o.Refused = func(string, string, *wire.Error) {}
	}
	return &Server{ServerOptions: o, work: run.NewGroup()}
}

// Close waits for everything that runs for connections. The connections must be closed before.
func (s *Server) Close() { s.work.Close() }

// Audit records what a node does over its connection: an action, the name and the tenant of the node, and the error with
// which it ended.
type Audit func(action, node string, tenant core.TenantID, e *wire.Error)

// The actions of nodes.
const (
	actionRegister  = "node.register"
	actionReconnect = "node.reconnect" // to the epoch that it had
	actionLeave     = "node.leave"
	actionMessage   = "node.message" // that is denied
)

// Serve serves a connection in the background, until it ends.
func (s *Server) Serve(ws *socket.Conn, caller *auth.Principal, audit Audit) {
	s.work.Go(func(ctx context.Context) { socket.Protect(ws, s.Log, func() { s.serve(ctx, ws, caller, audit) }) })
}

// serve serves a connection until it ends. Before the node has registered there is no conn, so nothing that it sends can reach a
// job.
func (s *Server) serve(ctx context.Context, ws *socket.Conn, caller *auth.Principal, audit Audit) {
	var in compat.NodeRegister
	n, e := s.awaitRegister(ctx, ws, caller, audit, &in)
	if e != nil {
		s.Refused(ws.RemoteAddr(), in.NodeID, e)
		socket.Refuse(ws, e)
		return
	}
	defer s.disconnected(ctx, n)
	ws.OnPong(func([]byte) { s.handlePong(ctx, n) })
	for {
		m, err := ws.Read()
		if err != nil {
			return
		}
		n.handling.Store(true)
		e := s.handle(ctx, n, m)
		n.handling.Store(false)
		if e != nil {
			if e.Code == wire.Forbidden {
				n.audit(actionMessage, string(n.id), n.declared.Tenant, e)
			}
			socket.ReplyError(ws, m, e)
		}
	}
}

// awaitRegister reads the first message, which must be node_register, and admits the node.
func (s *Server) awaitRegister(ctx context.Context, ws *socket.Conn, caller *auth.Principal, audit Audit, in *compat.NodeRegister) (*conn,
	*wire.Error) {
	_, text, err := socket.ReadFirst(ws, s.FirstMessage, in.Type())
	if err == nil {
		err = wire.Decode(text, in)
	}
	if err != nil {
		return nil, convert.Error(err)
	}
	n, e := s.admit(ctx, ws, caller, in)
	if e != nil {
		audit(actionRegister, in.NodeID, "", e)
		return nil, e
	}
	n.audit = audit
	action := actionRegister
	if n.resumed {
		action = actionReconnect
	}
	audit(action, string(n.id), n.declared.Tenant, nil)
	return n, nil
}

// errCallback is the answer to a node that asks for its jobs in two ways.
func errCallback() *wire.Error {
	return wire.Invalid("callback_url", "a node that is connected gets its jobs over the connection")
}

// admit registers a node, or resumes its epoch, and makes the connection its current one.
func (s *Server) admit(ctx context.Context, ws *socket.Conn, caller *auth.Principal, given *compat.NodeRegister) (*conn, *wire.Error) {
	in := &given.NodeRegister
	warnings := given.Translate()
	if e := convert.CheckOptionalID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if !caller.ActsForNode(core.NodeID(in.NodeID)) {
		return nil, wire.FieldErrorf(wire.Forbidden, "node_id", "this key is not for a node of this name")
	}
	if in.CallbackURL != nil {
		return nil, errCallback()
	}
	if e := socket.CheckKeepalive(in.KeepaliveMS); e != nil {
		return nil, e
	}
	c, a, e := s.Read.Registration(&in.Declaration)
	if e != nil {
		return nil, e
	}
	if e := convert.SetTenant(caller, &c); e != nil {
		return nil, e
	}
	if in.NodeID == "" {
		in.NodeID = string(nodes.NewID())
	}
	defer s.Conns.lockNode(core.NodeID(in.NodeID))()
	defer s.Conns.beginAdmit(core.NodeID(in.NodeID))()
	epoch, secret := parseResumeToken(in.ResumeToken)
	c.Owner = s.Instance
	by := nodes.Caller{Connection: s.Conns.newConnectionID(), MaxNodes: caller.MaxNodes, Secret: secret}
	ack := wire.NodeRegisterAck{HeartbeatIntervalMS: s.HeartbeatInterval.Milliseconds(), Status: "registered", KeepaliveMS: in.KeepaliveMS,
		Warnings: warnings}
	n := &conn{ws: ws, id: core.NodeID(in.NodeID), connection: by.Connection, secret: secret, mu: run.NewMutex("node_conn")}
	drained := false
	if known := s.resumable(ctx, n.id, epoch, &c, secret); known != nil {
		beat, err := s.Nodes.Heartbeat(ctx, nodes.Heartbeat{Node: n.id, Epoch: known.Epoch, Change: c, Caller: by, Activity: a})
		if err == nil {
			err = s.Nodes.Reconnected(ctx, n.id, known.Epoch, n.connection)
		}
		if err == nil {
			n.resumed = true
			n.epoch, drained, ack.Status, ack.Cancel = known.Epoch, known.Drained, "resumed", convert.ActiveJobs(beat.Cancel)
		}
	}
	if n.epoch == 0 {
		r, err := s.Nodes.Register(ctx, n.id, c, by, a)
		if err != nil {
			return nil, convert.Error(err)
		}
		n.epoch, n.secret, drained, ack.Cancel = r.Node.Epoch, r.Secret, r.Node.Drained, convert.ActiveJobs(r.Cancel)
	}
	n.declared = c.Declare(n.id)
	n.presence.recordBeat(a.Lists)
	ack.NoAudio = s.withoutAudio(in.Active, ack.Cancel)
	ack.NodeID, ack.Epoch, ack.ResumeToken = string(n.id), int64(n.epoch), resumeToken(n.epoch, n.secret)
	ws.Send(ack)
	ws.SetKeepalive(in.KeepaliveMS)
	if drained {
		ws.Send(wire.Drain{Drained: true})
	}
	// From here on the node can be given jobs, after it has the acknowledgement.
	if replaced := s.Conns.add(n); replaced != nil {
		replaced.ws.Close(wire.CloseReplaced, wire.Errorf(wire.StaleEpoch, "node %s has connected again", n.id))
	}
	s.correctDrain(n, drained)
	if e := s.Nodes.CheckName(n.id); e != nil { // it was revoked before the connection could be found here
		socket.Refuse(ws, e)
	}
	s.resendAudio(n, in.Active)
	return n, nil
}

// resumeToken is the token with which a node proves that it was registered in an epoch: the epoch, a dot and the node's secret.
func resumeToken(epoch core.Epoch, secret string) string {
	return strconv.FormatInt(int64(epoch), 10) + "." + secret
}

// parseResumeToken returns the epoch and the secret of a token. The epoch is 0 if the node has chosen the secret itself, and the
// secret is empty if the text is none.
func parseResumeToken(token string) (core.Epoch, string) {
	epoch, secret := core.Epoch(0), token
	if number, rest, ok := strings.Cut(token, "."); ok {
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			epoch, secret = core.Epoch(n), rest
		}
	}
	if !nodes.ValidSecret(secret) {
		return 0, ""
	}
	return epoch, secret
}

// resumable is the node whose epoch a registration resumes; nil when it must begin another. On another instance a node always
// begins another epoch, which distinguishes it from its connection here; so does a node whose key is of another tenant now.
func (s *Server) resumable(ctx context.Context, id core.NodeID, epoch core.Epoch, c *core.Change, secret string) *core.Node {
	if epoch == 0 || secret == "" {
		return nil
	}
	now, err := s.Nodes.Node(ctx, id)
	switch {
	case err != nil || now.Node.Epoch != epoch || !now.Node.HasSecret(secret):
		return nil
	case now.Node.Health == core.HealthOffline || now.Node.Owner != s.Instance || c.IsOfOther(now.Node.Tenant):
		return nil
	}
	return now.Node
}

// withoutAudio is the part of a node's list whose audio is not on this instance, without what the node is to cancel anyway.
func (s *Server) withoutAudio(listed []wire.ActiveAttempt, cancel []wire.ActiveJob) []wire.ActiveJob {
	var missing []wire.ActiveJob
	for _, a := range listed {
		if !slices.Contains(cancel, a.ActiveJob) && s.Conns.Audio.Clip(core.JobID(a.JobID)) == nil {
			missing = append(missing, a.ActiveJob)
		}
	}
	return missing
}

// resendAudio sends a reconnected node the audio that its earlier connection may have lost: of every attempt that it lists and
// holds, from the first chunk that it does not report. A node whose job's audio is elsewhere was given a URL for it.
func (s *Server) resendAudio(n *conn, listed []wire.ActiveAttempt) {
	for _, a := range listed {
		job := core.JobID(a.JobID)
		r := dispatch.Report{Job: job, Holder: core.Holder{Attempt: a.AttemptID, Node: n.id, Epoch: n.currentEpoch()}}
		if !s.Jobs.Reports.IsHolder(&r) {
			continue // it was given to another node meanwhile, or has ended
		}
		if clip := s.Conns.Audio.Clip(job); clip != nil && a.AudioChunks < clip.Chunks() {
			n.ws.Feed(clip.Frames(a.ActiveJob, a.AudioChunks))
		}
	}
}

// disconnected gives a node whose connection is lost its grace period, and moves its jobs if it does not reconnect.
func (s *Server) disconnected(ctx context.Context, n *conn) {
	if !s.Conns.remove(n) {
		return
	}
	s.work.Go(func(ctx context.Context) {
		if !run.Sleep(ctx, s.Grace) {
			return
		}
		defer s.Conns.lockNode(n.id)()
		if !s.Conns.endGrace(n) {
			return
		}
		if err := s.Nodes.MarkLost(ctx, n.id, n.currentEpoch()); err != nil {
			s.Log.Warn("could not move the jobs of a node that did not reconnect", "node_id", n.id, "error", err)
		}
	})
	n.lose()
	if n.mustRecord() {
		s.record(ctx, n) // so that no instance chooses the node until it reconnects
	}
}
