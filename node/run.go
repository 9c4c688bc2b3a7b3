package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Node is a node, at work while Run runs. Its methods may be called from any goroutine.
type Node struct {
	cfg     Config
	handler Handler
	log     *slog.Logger
	http    *http.Client
	pace    pace

	ran  atomic.Bool
	soon chan struct{} // holds one token when a heartbeat should go at once

	work     context.Context // of the handlers
	halt     context.CancelCauseFunc
	handlers sync.WaitGroup

	asking sync.Mutex // Config.Load is being asked

	where   addresses // this and the next belong to the goroutine that connects
	haunted bool      // a registration was sent and not answered: it may still replace the next

	mu       sync.Mutex // held for moments only; before a link's
	id       string
	token    string // with which to resume
	epoch    int64
	beats    uint64           // heartbeats sent in this epoch
	interval time.Duration    // between two
	link     *link            // nil while there is none
	moving   bool             // a registration is under way: what it does not list must not be accepted
	leaving  bool             // nothing new is accepted
	drained  bool             // the author was told that nothing new should come
	shut     bool             // nothing new is accepted over this registration: it was drained
	parted   bool             // the connection was closed for good
	declared wire.Declaration // what the node can do by now
	unsaid   wire.Declaration // what of it the scheduler has not been told
	since    wire.Declaration // what of it changed since the last registration was written
	tasks    map[wire.ActiveJob]*task
	running  int           // handlers that have not returned
	listed   int           // how long the list of the tasks is
	kept     int           // how large the outcomes are that wait for their acknowledgement
	idle     chan struct{} // closed when there is no task; nil until somebody waits for it
}

// Run works as a node until ctx ends: it is New and Node.Run in one, for nodes that never change what they declare.
func Run(ctx context.Context, cfg Config, h Handler) error {
	n, err := New(cfg, h)
	if err != nil {
		return err
	}
	return n.Run(ctx)
}

// New makes a node, which does nothing until Run. It returns an error if the configuration is not valid.
func New(cfg Config, h Handler) (*Node, error) { return newNode(cfg, h, usual) }

func newNode(cfg Config, h Handler, p pace) (*Node, error) {
	if h == nil {
		return nil, errors.New("node: the handler is nil")
	}
	where, err := cfg.check()
	if err != nil {
		return nil, err
	}
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	n := &Node{
		cfg: cfg, handler: h, log: cfg.Log, http: cfg.HTTPClient, where: where, pace: p,
		id: cfg.ID, tasks: make(map[wire.ActiveJob]*task), soon: make(chan struct{}, 1),
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	declared := cfg.Declaration
	declared.MaxConcurrentJobs, declared.Active = &cfg.Slots, nil
	if n.declared, err = changed(&wire.Declaration{}, &declared); err != nil {
		return nil, err
	}
	return n, nil
}

// Run works until ctx ends, and returns nil then: the scheduler is told that the node is leaving, and what is in hand is
// finished and acknowledged first, within Config.Grace. It returns an error sooner if the scheduler does not want the node
// back (*Refused). A scheduler that cannot be reached is tried again. A node runs once.
func (n *Node) Run(ctx context.Context) error {
	if n.ran.Swap(true) {
		return errors.New("node: Run was called before; make another node with New")
	}
	if n.http == nil {
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: min(n.cfg.Slots, 64), IdleConnTimeout: 90 * time.Second}
		defer transport.CloseIdleConnections()
		n.http = &http.Client{Transport: transport}
	}
	n.work, n.halt = context.WithCancelCause(context.WithoutCancel(ctx)) // jobs may outlast ctx by the time of grace
	return n.run(ctx)
}

func (n *Node) run(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var err error
	over := make(chan struct{})
	go func() {
		defer close(over)
		err = n.serve(life)
	}()
	select {
	case <-over:
	case <-ctx.Done():
		n.depart(over)
		end()
		<-over
	}
	return errors.Join(err, n.dismiss())
}

// depart takes leave of the scheduler, unless it is over before that.
func (n *Node) depart(over <-chan struct{}) {
	n.log.Info("node is leaving")
	idle := n.refuse()
	n.heartbeat()
	if !within(n.cfg.Grace, idle, over) {
		n.halt(errShutdown) // the handlers' last words still go out
		within(n.pace.quit, idle, over)
	}
	n.mu.Lock()
	n.parted = true
	l := n.link
	n.mu.Unlock()
	if l != nil {
		l.finish()
		within(n.pace.quit, l.done, over)
	}
}

// refuse sees to it that nothing new is accepted. The channel is closed when nothing is in hand any more.
func (n *Node) refuse() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leaving = true
	idle := make(chan struct{})
	if len(n.tasks) == 0 {
		close(idle)
	} else {
		n.idle = idle
	}
	return idle
}

// dismiss ends the handlers that still run, and waits for them.
func (n *Node) dismiss() error {
	n.refuse()
	n.halt(errShutdown)
	returned := make(chan struct{})
	go func() {
		n.handlers.Wait()
		close(returned)
	}()
	if within(n.pace.quit, returned, nil) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Errorf("node: %d handlers did not return when their context ended; have them watch it", n.running)
}

// within waits for one of two things, and reports false when the time was over first.
func within(d time.Duration, one, other <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-one:
	case <-other:
	case <-t.C:
		return false
	}
	return true
}
