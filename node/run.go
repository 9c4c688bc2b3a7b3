package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// node is a node at work.
type node struct {
	cfg     Config
	handler Handler
	log     *slog.Logger
	http    *http.Client
	socket  *url.URL
	base    *url.URL
	pace    pace

	work     context.Context // of the handlers
	halt     context.CancelCauseFunc
	handlers sync.WaitGroup

	asking  sync.Mutex // Config.Load is being asked
	haunted bool       // a registration was sent and not answered: it may still replace the next. Of the goroutine that connects

	mu       sync.Mutex // held for moments only; before a link's
	id       string
	token    string // with which to resume
	epoch    int64
	beats    uint64        // heartbeats sent in this epoch
	interval time.Duration // between two
	link     *link         // nil while there is none
	moving   bool          // a registration is under way: what it does not list must not be accepted
	leaving  bool          // nothing new is accepted
	parted   bool          // the connection was closed for good
	tasks    map[wire.ActiveJob]*task
	running  int           // handlers that have not returned
	listed   int           // how long the list of the tasks is
	kept     int           // how large the outcomes are that wait for their acknowledgement
	idle     chan struct{} // closed when there is no task; nil until somebody waits for it
}

// Run works as a node until ctx ends, and returns nil then: the scheduler is told that the node is leaving, and what is in
// hand is finished and acknowledged first, within Config.Grace. It returns an error sooner if the configuration is not
// valid, or if the scheduler does not want the node back (*Refused). A scheduler that cannot be reached is tried again.
func Run(ctx context.Context, cfg Config, h Handler) error { return run(ctx, cfg, h, usual) }

func run(ctx context.Context, cfg Config, h Handler, p pace) error {
	if h == nil {
		return errors.New("node: the handler is nil")
	}
	socket, err := cfg.check()
	if err != nil {
		return err
	}
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	n := &node{
		cfg: cfg, handler: h, log: cfg.Log, http: cfg.HTTPClient, socket: socket, base: httpBase(socket), pace: p,
		id: cfg.ID, tasks: make(map[wire.ActiveJob]*task),
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	if n.http == nil {
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: min(cfg.Slots, 64), IdleConnTimeout: 90 * time.Second}
		defer transport.CloseIdleConnections()
		n.http = &http.Client{Transport: transport}
	}
	n.work, n.halt = context.WithCancelCause(context.WithoutCancel(ctx)) // jobs may outlast ctx by the time of grace
	return n.run(ctx)
}

func (n *node) run(ctx context.Context) error {
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
func (n *node) depart(over <-chan struct{}) {
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
func (n *node) refuse() <-chan struct{} {
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
func (n *node) dismiss() error {
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
