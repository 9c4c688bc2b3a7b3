package clustertest

import (
	"cmp"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/child"
	"github.com/lingua-scheduler/lingua/test/clustertest/journal"
)

const (
	probeInterval = 200 * time.Millisecond
	dialTimeout   = time.Second
)

// Balancer is a TCP load balancer before the instances. Each new connection goes to the ready instance with the fewest connections;
// instances that are not ready are tried last.
type Balancer struct {
	listener net.Listener
	backends []*backend
	running  sync.WaitGroup
	stop     context.CancelFunc

	mu     sync.Mutex
	conns  map[*BalancedConn]struct{}
	routes Routes
}

// Routes records to which instance each connection went, by the local address of the client. An address can be used again
// later.
type Routes map[string][]Route

// Route is the instance to which a connection went, and when.
type Route struct {
	At       int64
	Instance string
}

// InstanceOf returns the instance to which the connection from an address went that existed at a time.
func (r Routes) InstanceOf(from string, at int64) string {
	instance := ""
	for _, route := range r[from] {
		if route.At <= at {
			instance = route.Instance
		}
	}
	return instance
}

type backend struct {
	*Instance
	ready atomic.Bool
}

// BalancedConn is one connection through the balancer.
type BalancedConn struct {
	client, server net.Conn
	backend        *backend
}

// Instance returns the instance to which the connection goes.
func (c *BalancedConn) Instance() *Instance { return c.backend.Instance }

func (c *BalancedConn) close() {
	_ = c.client.Close()
	_ = c.server.Close()
}

// StartBalancer starts a balancer, which runs until the end of the test.
func StartBalancer(tb testing.TB, instances []*Instance) *Balancer {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", child.Address(child.Port(tb)))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(tb.Context()))
	b := &Balancer{listener: listener, stop: stop, conns: make(map[*BalancedConn]struct{}), routes: make(Routes)}
	for _, i := range instances {
		to := &backend{Instance: i}
		to.ready.Store(true)
		b.backends = append(b.backends, to)
		b.running.Go(func() {
			for run.SleepJitter(ctx, probeInterval, 0.2) {
				to.ready.Store(to.CheckReady(ctx) == nil)
			}
		})
	}
	b.running.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			b.running.Go(func() { b.serve(ctx, in) })
		}
	})
	tb.Cleanup(func() {
		stop()
		_ = listener.Close()
		b.Cut(func(*BalancedConn) bool { return true })
		b.running.Wait()
	})
	return b
}

// URL returns the base URL of the balancer.
func (b *Balancer) URL() string { return "http://" + b.listener.Addr().String() }

func (b *Balancer) serve(ctx context.Context, in net.Conn) {
	c := b.dial(ctx, in)
	if c == nil {
		_ = in.Close()
		return
	}
	b.mu.Lock()
	b.conns[c] = struct{}{}
	from := c.client.RemoteAddr().String()
	b.routes[from] = append(b.routes[from], Route{journal.Now(), c.backend.Name})
	b.mu.Unlock()
	if ctx.Err() != nil { // it may have been accepted after all others were cut
		c.close()
	}
	var downstream sync.WaitGroup
	downstream.Go(func() {
		_, _ = io.Copy(c.client, c.server)
		c.close()
	})
	_, _ = io.Copy(c.server, c.client)
	c.close()
	downstream.Wait()
	b.mu.Lock()
	delete(b.conns, c)
	b.mu.Unlock()
}

// byConnections returns the instances in a random order, those with fewer connections first: so a few nodes and sessions are never all on
// one.
func (b *Balancer) byConnections() []*backend {
	open := make(map[*backend]int)
	b.mu.Lock()
	for c := range b.conns {
		open[c.backend]++
	}
	b.mu.Unlock()
	order := slices.Clone(b.backends)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(x, y *backend) int { return cmp.Compare(open[x], open[y]) })
	return order
}

// dial connects to an instance for a client: first to those that are ready, then to the others.
func (b *Balancer) dial(ctx context.Context, in net.Conn) *BalancedConn {
	dialer := net.Dialer{Timeout: dialTimeout}
	order := b.byConnections()
	for _, ready := range []bool{true, false} {
		for _, to := range order {
			if to.ready.Load() != ready {
				continue
			}
			if out, err := dialer.DialContext(ctx, "tcp", to.Addr()); err == nil {
				return &BalancedConn{client: in, server: out, backend: to}
			}
		}
	}
	return nil
}

// Cut closes the connections that match, and returns how many.
func (b *Balancer) Cut(match func(*BalancedConn) bool) int {
	b.mu.Lock()
	var matching []*BalancedConn
	for c := range b.conns {
		if match(c) {
			matching = append(matching, c)
		}
	}
	b.mu.Unlock()
	for _, c := range matching {
		c.close()
	}
	return len(matching)
}

// ConnCount returns the number of connections to an instance.
func (b *Balancer) ConnCount(i *Instance) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if c.backend.Instance == i {
			n++
		}
	}
	return n
}

// Routes returns to which instance every connection went.
func (b *Balancer) Routes() Routes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.routes)
}

// Healthy reports whether the balancer sends new connections to an instance.
func (b *Balancer) Healthy(i *Instance) bool {
	for _, to := range b.backends {
		if to.Instance == i {
			return to.ready.Load()
		}
	}
	return false
}
