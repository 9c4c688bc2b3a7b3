package drill

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/child"
)

const (
	probeEvery = 200 * time.Millisecond
	dialWithin = time.Second
)

// balancer is what stands before the instances: each new connection goes to one that accepts it, in random order. One
// that says it is not ready is left out, as long as there is another.
type balancer struct {
	door     net.Listener
	backends []*backend
	works    sync.WaitGroup
	stop     context.CancelFunc

	mu     sync.Mutex
	pairs  map[*pair]struct{}
	routes routes
}

// routes is to which instance connections went, by the address they came from. An address may be used again later.
type routes map[string][]route

type route struct {
	at       int64
	instance string
}

// of is where a connection went that was there at a moment.
func (r routes) of(from string, at int64) string {
	where := ""
	for _, one := range r[from] {
		if one.at <= at {
			where = one.instance
		}
	}
	return where
}

type backend struct {
	*instance
	up atomic.Bool
}

// pair is one connection, from both sides.
type pair struct {
	in, out net.Conn
	to      *backend
}

func (p *pair) close() {
	_ = p.in.Close()
	_ = p.out.Close()
}

// startBalancer serves until the test ends.
func startBalancer(tb testing.TB, instances []*instance) *balancer {
	tb.Helper()
	door, err := net.Listen("tcp", child.Address(child.Port(tb)))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	b := &balancer{door: door, stop: stop, pairs: make(map[*pair]struct{}), routes: make(routes)}
	for _, i := range instances {
		to := &backend{instance: i}
		to.up.Store(true)
		b.backends = append(b.backends, to)
		b.works.Go(func() {
			for backoff.SleepJitter(ctx, probeEvery, 0.2) {
				to.up.Store(to.ready(ctx) == nil)
			}
		})
	}
	b.works.Go(func() {
		for {
			in, err := door.Accept()
			if err != nil {
				return // closed: by the end of the test
			}
			b.works.Go(func() { b.serve(ctx, in) })
		}
	})
	tb.Cleanup(func() {
		stop()
		_ = door.Close()
		b.cut(func(*pair) bool { return true })
		b.works.Wait()
	})
	return b
}

func (b *balancer) url() string { return "http://" + b.door.Addr().String() }

func (b *balancer) serve(ctx context.Context, in net.Conn) {
	p := b.connect(ctx, in)
	if p == nil {
		_ = in.Close()
		return
	}
	b.mu.Lock()
	b.pairs[p] = struct{}{}
	from := p.in.RemoteAddr().String()
	b.routes[from] = append(b.routes[from], route{now(), p.to.name})
	b.mu.Unlock()
	if ctx.Err() != nil { // it may have come too late to be cut with the others
		p.close()
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(p.in, p.out)
		p.close()
	})
	_, _ = io.Copy(p.out, p.in)
	p.close()
	back.Wait()
	b.mu.Lock()
	delete(b.pairs, p)
	b.mu.Unlock()
}

// connect finds somebody for a connection: first among those who are ready.
func (b *balancer) connect(ctx context.Context, in net.Conn) *pair {
	dialer := net.Dialer{Timeout: dialWithin}
	for _, ready := range []bool{true, false} {
		for _, k := range rand.Perm(len(b.backends)) {
			to := b.backends[k]
			if to.up.Load() != ready {
				continue
			}
			if out, err := dialer.DialContext(ctx, "tcp", to.addr()); err == nil {
				return &pair{in: in, out: out, to: to}
			}
		}
	}
	return nil
}

// cut closes the connections that are chosen, and says how many.
func (b *balancer) cut(chosen func(*pair) bool) int {
	b.mu.Lock()
	var some []*pair
	for p := range b.pairs {
		if chosen(p) {
			some = append(some, p)
		}
	}
	b.mu.Unlock()
	for _, p := range some {
		p.close()
	}
	return len(some)
}

// with is how many connections go to an instance.
func (b *balancer) with(i *instance) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for p := range b.pairs {
		if p.to.instance == i {
			n++
		}
	}
	return n
}

// went is to which instance every connection went.
func (b *balancer) went() routes {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.routes)
}

// sees says why the balancer does not send anybody to an instance, or does.
func (b *balancer) sees(i *instance) bool {
	for _, to := range b.backends {
		if to.instance == i {
			return to.up.Load()
		}
	}
	return false
}
