package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

var lostReplies = flag.Int64("lost-replies", 400, "how many replies TestLostReplies loses")

// lostLanes is how many lose replies at once: most of the time is spent on connections that are made anew.
const lostLanes = 8

// loss is a call whose reply is lost after it was carried out.
type loss struct {
	name  string
	loses string // the script or command whose reply it is
	// prepare makes what the call is about. It loses nothing.
	prepare func(ctx context.Context, x *subject) error
	// call makes the call and says what was answered, but for what tells the time.
	call func(ctx context.Context, s *redisstore.Store, x *subject) (string, error)
	// done reports that the step whose reply is to be lost was made; nil: it is the first one of the call.
	done func(before, now state) bool
	// renews names what a repeat writes anew on purpose.
	renews []string
	// counts says that each call counts, by its nature: whoever repeats it has made two.
	counts bool
}

// subject is a node, a job, a session and so on, all of one name, that nothing else is about.
type subject struct {
	name   string
	prefix string
	sure   *redisstore.Store // loses nothing
	server *redistest.Server
	node   *core.Node
	job    *core.Job
	letter store.InboxMessage
}

func (x *subject) state() (state, error) { return stateOf(x.server, x.prefix, x.name) }

// lane loses replies one after the other.
type lane struct {
	t           *testing.T
	server      *redistest.Server
	proxy       *redistest.Proxy
	lossy       *redisstore.Store // through the proxy
	sure        *redisstore.Store // to the same keys, past the proxy
	twin        *redisstore.Store // to other keys: what is done here is done once
	mine, other string            // prefixes
}

func newLane(t *testing.T, server *redistest.Server) *lane {
	l := &lane{t: t, server: server, proxy: redistest.StartProxy(t, server.Addr())}
	options := func(prefix *string, share bool) func(*redisstore.Options) {
		return func(o *redisstore.Options) {
			if share {
				o.Prefix = *prefix
			}
			*prefix = o.Prefix
			o.Timing.Presence, o.Timeout = time.Minute, 5*time.Second
		}
	}
	l.sure = open(t, server.URL(), options(&l.mine, false))
	l.lossy = open(t, l.proxy.URL(), options(&l.mine, true))
	l.twin = open(t, server.URL(), options(&l.other, false))
	return l
}

// TestLostReplies loses the reply to every script and command that writes, after it was carried out, and repeats the
// call as its caller does. Afterwards Redis holds what it held after the first time, and what it holds where the same
// was done once. In full:
//
//	go test -v -run TestLostReplies ./internal/store/redisstore -lost-replies 10000
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	began := time.Now()
	var tried, lost atomic.Int64
	counts := make([]atomic.Int64, len(losses))
	var lanes sync.WaitGroup
	for range lostLanes {
		l := newLane(t, server)
		lanes.Go(func() {
			for lost.Load() < *lostReplies && !t.Failed() {
				n := tried.Add(1)
				i := int(n) % len(losses)
				ok, err := l.lose(t.Context(), &losses[i], fmt.Sprintf("x%d", n))
				if err != nil {
					t.Errorf("%s: %v", losses[i].name, err)
				}
				if ok {
					counts[i].Add(1)
					lost.Add(1)
				}
			}
		})
	}
	lanes.Wait()
	each := make([]string, len(losses))
	for i := range losses {
		each[i] = fmt.Sprintf("%s %d", losses[i].name, counts[i].Load())
		if counts[i].Load() == 0 && !t.Failed() {
			t.Errorf("no reply was lost of: %s", losses[i].name)
		}
	}
	t.Logf("%d replies lost in %d calls and %v: %s", lost.Load(), tried.Load(), time.Since(began).Round(time.Second), strings.Join(each, ", "))
}

// lose makes one call with a loss. It reports whether the reply was lost after the call was carried out: what the
// store says beside the call, such as which nodes were heard, may come between.
func (l *lane) lose(ctx context.Context, c *loss, name string) (bool, error) {
	x := &subject{name: name, prefix: l.mine, sure: l.sure, server: l.server}
	y := &subject{name: name, prefix: l.other, sure: l.twin, server: l.server}
	if err := errors.Join(c.prepare(ctx, x), c.prepare(ctx, y)); err != nil {
		return false, fmt.Errorf("it cannot be prepared: %w", err)
	}
	before, err := x.state()
	if err != nil {
		return false, err
	}
	dropped := l.proxy.Dropped()
	l.once(ctx, c, x, before)
	once, err := x.state()
	if err != nil {
		return false, err
	}
	made := cmp.Diff(before, once) != ""
	lost := made && l.proxy.Dropped() > dropped
	answer, err := l.repeat(ctx, c, x)
	if err != nil {
		return false, err
	}
	twice, err := x.state()
	if err != nil {
		return false, err
	}
	once, again := once.but("seen").without(renewed, c.renews...), twice.but("seen").without(renewed, c.renews...)
	if diff := cmp.Diff(once, again); lost && !c.counts && diff != "" {
		l.t.Errorf("%s had a second effect (-once +twice):\n%s", c.name, diff)
	}
	times := 1
	if c.counts && made {
		times = 2
	}
	return lost, l.compare(ctx, c, y, times, answer, twice)
}

// once makes the call and loses its reply. Whatever comes back from it says nothing.
func (l *lane) once(ctx context.Context, c *loss, x *subject, before state) {
	defer l.proxy.DropReplies(0)
	if c.done == nil {
		l.proxy.DropReplies(1)
		_, _ = c.call(ctx, l.lossy, x)
		return
	}
	l.proxy.Delay(30 * time.Millisecond) // time to see that the step was made before its reply arrives
	defer l.proxy.Delay(0)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = c.call(ctx, l.lossy, x)
	}()
	for {
		if now, err := x.state(); err == nil && c.done(before, now) {
			break
		}
		select {
		case <-over:
			return
		case <-time.After(time.Millisecond):
		}
	}
	l.proxy.DropReplies(1)
	<-over
}

// repeat makes the call until it is answered. The connection has to be made anew, so it may take some tries.
func (l *lane) repeat(ctx context.Context, c *loss, x *subject) (string, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		answer, err := c.call(ctx, l.lossy, x)
		if err == nil || !errors.Is(err, store.ErrDown) || time.Now().After(deadline) {
			return answer, err
		}
		backoff.Sleep(ctx, time.Millisecond)
	}
}

// compare does the same where nothing is lost, and holds what comes of it against what came of the repeat.
func (l *lane) compare(ctx context.Context, c *loss, y *subject, times int, answer string, got state) error {
	var want string
	for range times {
		var err error
		if want, err = c.call(ctx, l.twin, y); err != nil {
			return err
		}
	}
	if want != answer {
		l.t.Errorf("%s: the repeat was answered %q, want %q", c.name, answer, want)
	}
	single, err := y.state()
	if err != nil {
		return err
	}
	// Records are compared by what they say, because how they say it counts the time.
	id := core.JobID(y.name)
	for s, in := range map[*redisstore.Store]state{l.sure: got, l.twin: single} {
		if _, ok := in["record"]; ok {
			job, err := s.Get(ctx, id)
			if err != nil {
				return err
			}
			in["record"] = describe(job)
		}
	}
	if diff := cmp.Diff(single.without(timed, c.renews...), got.without(timed, c.renews...)); diff != "" {
		l.t.Errorf("%s: what is there (-done once +reply lost and repeated):\n%s", c.name, diff)
	}
	return nil
}

// TestEveryScriptThatWritesIsLost: whoever adds a script has to say here what a repeat of it does.
func TestEveryScriptThatWritesIsLost(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, c := range losses {
		known[c.loses] = true
	}
	files, err := os.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".lua")
		text, err := os.ReadFile("scripts/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if name != "lib" && name != "lib_inbox" && !known[name] && !strings.Contains(string(text), "Writes nothing.") {
			t.Errorf("%s writes, and TestLostReplies does not lose its reply", file.Name())
		}
	}
}
