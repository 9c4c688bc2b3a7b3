package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// nodeSocket opens /ws/node. The request ends here; the connection goes on by itself.
func (s *Server) nodeSocket(w http.ResponseWriter, r *http.Request) {
	token := socket.Token(r)
	grant, err := s.Keys.Node(token)
	if err != nil {
		s.turnAway(w, r, s.denied(token, "nodes: use a node's token"))
		return
	}
	conn, err := s.Hub.Accept(w, r)
	if err != nil {
		return // it was answered
	}
	s.sockets.Go(func() { s.serveNode(conn, &grant) })
}

// serveNode is a node's connection, from its first word to its last. Until it has registered there is no nodeLink, and
// so nothing that could reach a job.
func (s *Server) serveNode(conn *socket.Conn, grant *auth.NodeGrant) {
	ctx := s.life
	first, e := firstWord[wire.NodeRegister](s, conn)
	if e != nil {
		refuse(conn, e)
		return
	}
	n, e := s.admitNode(ctx, conn, grant, first)
	if e != nil {
		refuse(conn, e)
		return
	}
	defer s.nodeLeft(n)
	for {
		m, err := conn.Read()
		if err != nil {
			return
		}
		if e := s.nodeSaid(ctx, n, m); e != nil {
			sorry(conn, m, e)
		}
	}
}

// firstWord waits for the one message that may come first.
func firstWord[T wire.Frame](s *Server, conn *socket.Conn) (*T, *wire.Error) {
	var in T
	late := time.AfterFunc(s.FirstMessage, func() {
		conn.Close(wire.CloseIdle, wire.Errorf(wire.DeadlineExceeded, "no %s came within %s", in.Type(), s.FirstMessage))
	})
	defer late.Stop()
	m, err := conn.Read()
	if err != nil {
		return nil, wire.Errorf(wire.InvalidRequest, "the connection ended before its first message")
	}
	if m.Binary {
		return nil, wire.Errorf(wire.InvalidRequest, "the first message must be %s", in.Type())
	}
	typ, err := wire.TypeOf(m.Data)
	if err != nil {
		return nil, asError(err)
	}
	if typ != in.Type() {
		return nil, wire.Invalid("type", "the first message must be %s, not %s", in.Type(), typ)
	}
	if err := wire.Decode(m.Data, &in); err != nil {
		return nil, asError(err)
	}
	return &in, nil
}

// refuse closes a connection that may not go on.
func refuse(conn *socket.Conn, e *wire.Error) { conn.Close(closeCode(e.Code), e) }

// noCallback is the answer to a node that wants its jobs in two ways.
func noCallback() *wire.Error {
	return wire.Invalid("callback_url", "a node that is connected gets its jobs over the connection")
}

// sorry answers a message that was not as it should be, and closes the connection if it is that bad.
func sorry(conn *socket.Conn, m socket.Message, e *wire.Error) {
	if e.Code.Traits().Fatal {
		refuse(conn, e)
		return
	}
	answer := wire.ErrorFrame{Error: *e}
	if typ, err := wire.TypeOf(m.Data); err == nil && !m.Binary {
		answer.Reply = wire.Quote(string(typ))
	}
	conn.Send(answer)
}

// closeCode is the close code that goes with an error.
func closeCode(code wire.Code) wire.CloseCode {
	switch code {
	case wire.Unauthorized:
		return wire.CloseUnauthorized
	case wire.Forbidden:
		return wire.CloseForbidden
	case wire.NotFound:
		return wire.CloseNotFound
	case wire.StaleEpoch:
		return wire.CloseReplaced
	case wire.PayloadTooLarge:
		return wire.CloseTooLarge
	case wire.RateLimited:
		return wire.CloseTooFast
	case wire.SchedulerDependencyDown, wire.AllCandidatesFullOrFailed:
		return wire.CloseDraining
	case wire.Internal:
		return wire.CloseInternal
	}
	return wire.CloseBadMessage
}

func asError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return wire.Errorf(wire.Internal, "something went wrong here, not with your message; it was logged")
}

// admitNode registers a node, or goes on with the life it is in, and makes its connection its own.
func (s *Server) admitNode(ctx context.Context, conn *socket.Conn, grant *auth.NodeGrant, in *wire.NodeRegister) (*nodeLink, *wire.Error) {
	if e := checkOptionalID("node_id", in.NodeID); e != nil {
		return nil, e
	}
	if !grant.Covers(core.NodeID(in.NodeID)) {
		return nil, wire.Wrong(wire.Forbidden, "node_id", "this token is not for a node of this name")
	}
	if in.CallbackURL != nil {
		return nil, noCallback()
	}
	p, a, e := s.registration(&in.Declaration)
	if e != nil {
		return nil, e
	}
	if p.Tenant, e = tenantOf(grant, p.Tenant); e != nil {
		return nil, e
	}
	if in.NodeID == "" {
		in.NodeID = string(nodes.NewID())
	}
	defer s.NodeConns.decide(core.NodeID(in.NodeID))()
	p.Owner, p.Connection = &s.Instance, s.NodeConns.connection()
	ack := wire.NodeRegisterAck{HeartbeatIntervalMS: s.Heartbeat.Milliseconds(), Status: "registered"}
	n := &nodeLink{conn: conn, id: core.NodeID(in.NodeID), connection: p.Connection}
	drained := false
	if was := s.resumed(ctx, in); was != nil {
		cancel, err := s.Nodes.Heartbeat(ctx, nodes.Heartbeat{Node: n.id, Epoch: was.Epoch, Patch: p, Activity: a})
		if err == nil {
			err = s.Nodes.Reconnected(ctx, n.id, was.Epoch, n.connection)
		}
		if err == nil {
			n.epoch, drained, ack.Status, ack.Cancel = was.Epoch, was.Drained, "resumed", viewActive(cancel)
		}
	}
	if n.epoch == 0 {
		r, err := s.Nodes.Register(ctx, n.id, p, a)
		if err != nil {
			return nil, asError(err)
		}
		n.epoch, drained, ack.Cancel = r.Node.Epoch, r.Node.Drained, viewActive(r.Cancel)
	}
	n.said = p.Declare(n.id)
	ack.NoAudio = s.withoutAudio(in.Active, ack.Cancel)
	ack.NodeID, ack.Epoch, ack.ResumeToken = string(n.id), int64(n.epoch), s.resumeToken(n.id, n.epoch)
	conn.Send(ack)
	if drained {
		conn.Send(wire.Drain{Drained: true})
	}
	// From here on it can be given jobs, after it was told who it is.
	if old := s.NodeConns.enter(n); old != nil {
		old.conn.Close(wire.CloseReplaced, wire.Errorf(wire.StaleEpoch, "node %s has connected again", n.id))
	}
	s.resendAudio(n, in.Active)
	return n, nil
}

// registration reads a declaration that must be whole.
func (s *Server) registration(d *wire.Declaration) (nodes.Patch, store.Activity, *wire.Error) {
	if d.SemanticLangs == nil {
		return nodes.Patch{}, store.Activity{}, wire.Invalid("semantic_langs", "is missing: list the languages the node can repair")
	}
	if d.MaxConcurrentJobs == nil {
		return nodes.Patch{}, store.Activity{}, wire.Invalid("max_concurrent_jobs", "is missing: say how many jobs the node takes at once")
	}
	p, e := s.patch(d)
	if e != nil {
		return nodes.Patch{}, store.Activity{}, e
	}
	a, e := activity(d)
	return p, a, e
}

// resumeToken proves that somebody was told a node's epoch by this scheduler.
func (s *Server) resumeToken(id core.NodeID, epoch core.Epoch) string {
	mac := hmac.New(sha256.New, s.Secret)
	fmt.Fprintf(mac, "%s %d", id, epoch)
	return strconv.FormatInt(int64(epoch), 10) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// resumed is a node that may go on in the life it was in; nil when it may not. Elsewhere it begins another life, so that
// what it left behind here is told from it.
func (s *Server) resumed(ctx context.Context, in *wire.NodeRegister) *core.Node {
	if in.ResumeToken == "" {
		return nil
	}
	number, _, _ := strings.Cut(in.ResumeToken, ".")
	epoch, err := strconv.ParseInt(number, 10, 64)
	id := core.NodeID(in.NodeID)
	if err != nil || !hmac.Equal([]byte(in.ResumeToken), []byte(s.resumeToken(id, core.Epoch(epoch)))) {
		return nil
	}
	now, err := s.Nodes.Node(ctx, id)
	if err != nil || now.Node.Epoch != core.Epoch(epoch) || now.Node.Health == core.HealthOffline || now.Node.Owner != s.Instance {
		return nil
	}
	return now.Node
}

// nodeLeft gives a node whose connection was lost its grace, and moves its jobs if it does not come back.
func (s *Server) nodeLeft(n *nodeLink) {
	if !s.NodeConns.leave(n) {
		return
	}
	s.later(s.Grace, func(ctx context.Context) {
		defer s.NodeConns.decide(n.id)()
		if !s.NodeConns.lost(n) {
			return
		}
		if err := s.Nodes.NodeLost(ctx, n.id, n.life()); err != nil {
			s.Log.Warn("could not move the jobs of a node that did not come back", "node_id", n.id, "error", err)
		}
	})
	s.disconnected(n)
}

// disconnectBackoff is between two tries to record a lost connection.
var disconnectBackoff = backoff.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}

// disconnected has every instance pass over a node while its connection is lost. It is tried until the store answers or
// the grace is over, when the node is taken for gone anyway.
func (s *Server) disconnected(n *nodeLink) {
	ctx, cancel := context.WithTimeout(s.life, s.Grace)
	defer cancel()
	disconnectBackoff.Retry(ctx, func() error {
		if !s.NodeConns.awaits(n) {
			return nil // it is back
		}
		return s.Nodes.Disconnected(ctx, n.id, n.life(), n.connection)
	})
}
