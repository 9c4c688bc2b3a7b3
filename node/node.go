package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/endpoints"
	"github.com/lingua-scheduler/lingua/wire"
)

// Node is a node of the scheduler, which executes jobs while Run runs. Its methods may be called from any goroutine.
type Node struct {
	cfg       Config
	handler   Handler
	log       *slog.Logger
	timing    timing
	load      loadReader
	endpoints *endpoints.Rotation // used by the connector only

	started      atomic.Bool
	heartbeatNow chan struct{} // of capacity 1: a heartbeat is due at once
	http         *http.Client  // set by Run, as is the executor
	executor     *executor

	mu           sync.Mutex // guards the fields below; never held while waiting, and taken before a connection's
	registration registration
	declaration  declaration
	attempts     attemptTable
	conn         *connection // nil while there is none
	registering  bool        // a registration is under way: a job that it does not list must not be accepted
	leaving      bool        // the node is shutting down and accepts no job
	drained      bool        // the drain state that Config.OnDrain knows
	refusing     bool        // no job is accepted over this registration, because the node was drained
	closed       bool        // the connection was closed for good
}

// Run runs a node until ctx ends. It is New and Node.Run in one, for nodes that never change their declaration.
func Run(ctx context.Context, cfg Config, h Handler) error {
	n, err := New(cfg, h)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// New returns a node, which does nothing until Run. It returns an error if the configuration is invalid.
func New(cfg Config, h Handler) (*Node, error) { return newNode(cfg, h, defaultTiming) }

func newNode(cfg Config, h Handler, t timing) (*Node, error) {
	if h == nil {
		return nil, errors.New("node: the handler is nil")
	}
	rotation, err := cfg.validate()
	if err != nil {
		return nil, err
	}
	cfg.ShutdownTimeout = cmp.Or(cfg.ShutdownTimeout, defaultShutdownTimeout)
	n := &Node{
		cfg: cfg, handler: h, log: cfg.Log, timing: t, load: loadReader{read: cfg.Load}, endpoints: rotation, http: cfg.HTTPClient,
		heartbeatNow: make(chan struct{}, 1), registration: registration{nodeID: cfg.ID, resumeToken: rand.Text()},
		attempts: newAttemptTable(),
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	declared := cfg.Declaration
	declared.MaxConcurrentJobs, declared.Active = &cfg.Slots, nil
	if n.declaration.current, err = merge(&wire.Declaration{}, &declared); err != nil {
		return nil, err
	}
	return n, nil
}

// Run connects to the scheduler and executes jobs until ctx ends. Then it announces that the node is leaving, waits until
// the current jobs are finished and acknowledged, for at most Config.ShutdownTimeout, and returns nil. It returns an error
// sooner if the scheduler refuses the node for good (*RefusedError). A scheduler that cannot be reached is retried. Run can
// be called once.
func (n *Node) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("node: Run was called before; make another node with New")
	}
	if n.http == nil {
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: min(n.cfg.Slots, 64),
			IdleConnTimeout: 90 * time.Second}
		defer transport.CloseIdleConnections()
		n.http = &http.Client{Transport: transport}
	}
	n.executor = newExecutor(ctx, n.handler, n.log, &transferClient{http: n.http, timing: &n.timing}, n.cfg.TracerProvider)

	connectCtx, disconnect := context.WithCancel(context.WithoutCancel(ctx)) // the connection outlasts ctx by the shutdown
	defer disconnect()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = newConnector(n).run(connectCtx)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		n.shutDown(ended)
		disconnect()
		<-ended
	}
	return errors.Join(err, n.stopHandlers())
}

// shutDown announces the shutdown, waits for the current jobs and closes the connection. It returns early when the
// connector has ended.
func (n *Node) shutDown(connectorEnded <-chan struct{}) {
	n.log.Info("node is leaving")
	idle := n.stopAccepting()
	n.sendHeartbeat()
	if !waitEither(n.cfg.ShutdownTimeout, idle, connectorEnded) {
		n.executor.cancel() // the outcomes of the cancelled handlers are still sent
		waitEither(n.timing.stopTimeout, idle, connectorEnded)
	}
	n.mu.Lock()
	n.closed = true
	conn := n.conn
	n.mu.Unlock()
	if conn != nil {
		conn.send(wire.NodeLeave{})
		conn.closeWhenSent()
		waitEither(n.timing.stopTimeout, conn.done, connectorEnded)
	}
}

// stopAccepting makes the node refuse new jobs. The returned channel is closed when the node has no attempts.
func (n *Node) stopAccepting() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = true
	return n.attempts.whenIdle()
}

// stopHandlers cancels the handlers that still run and waits for them.
func (n *Node) stopHandlers() error {
	n.stopAccepting()
	n.executor.cancel()
	if waitEither(n.timing.stopTimeout, n.executor.returned(), nil) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Errorf("node: %d handlers did not return after their context ended", n.attempts.running)
}

// isClosed reports whether the node closed its connection for good.
func (n *Node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

// waitEither waits for one of two channels. It returns false if the timeout expired first.
func waitEither(timeout time.Duration, a, b <-chan struct{}) bool {
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-a:
	case <-b:
	case <-t.C:
		return false
	}
	return true
}
