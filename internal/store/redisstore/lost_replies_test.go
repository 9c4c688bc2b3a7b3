//go:build !race

package redisstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

var lostReplyCount = flag.Int64("lost-replies", 170, "the number of replies that TestLostReplies loses")

// lostReplyWorkers is how many calls are tested concurrently: most of the time is spent on reconnecting.
const lostReplyWorkers = 8

// lostReplyClock is the key of the clock of all queues, which stands still, so that no offer expires. It is one key for all workers, because
// its name is part of the scripts: a worker that calls a script as the first one loses the reply that the server does not know it.
const lostReplyClock = "lost-reply-clock"

// lostReply is a call whose reply is lost after it was executed.
type lostReply struct {
	name    string
	command string // the script or command whose reply it is
	// prepare creates the subject of the call. It loses no reply.
	prepare func(ctx context.Context, x *subject) error
	// call makes the call and returns its result without times.
	call func(ctx context.Context, s *redisstore.Store, x *subject) (string, error)
	// done reports that the command whose reply is to be lost was executed; nil: it is the first one of the call.
	done func(before, now redisState) bool
	// renews lists the fields that a repeated call writes again on purpose.
	renews []string
	// counts says that the call is not idempotent: a repeated call counts twice.
	counts bool
}

// subject is a node, a job, a session and so on, all of one name, that no other call uses.
type subject struct {
	name     string
	prefix   string
	reliable *redisstore.Store // loses no reply
	server   *redistest.Server
	node     *core.Node
	job      *core.Job
	message  store.InboxMessage
}

func (x *subject) state() (redisState, error) { return readState(x.server, x.prefix, x.name) }

// lostReplyWorker tests calls one after the other.
type lostReplyWorker struct {
	t                       *testing.T
	server                  *redistest.Server
	proxy                   *redistest.Proxy
	lossy                   *redisstore.Store // through the proxy
	reliable                *redisstore.Store // to the same keys, without the proxy
	reference               *redisstore.Store // to other keys: every call is made once
	prefix, referencePrefix string
}

func newLostReplyWorker(t *testing.T, server *redistest.Server) *lostReplyWorker {
	w := &lostReplyWorker{t: t, server: server, proxy: redistest.StartProxy(t, server.Addr())}
	options := func(prefix *string, share bool) func(*redisstore.Options) {
		return func(o *redisstore.Options) {
			if share {
				o.Prefix = *prefix
			}
			*prefix = o.Prefix
			o.Timing.Presence, o.Timing.ReservedTTL, o.Timeout = time.Minute, 30*time.Second, 5*time.Second // no lease ages during a test
		}
	}
	w.reliable = open(t, server.URL(), options(&w.prefix, false))
	w.lossy = open(t, w.proxy.URL(), options(&w.prefix, true))
	w.reference = open(t, server.URL(), options(&w.referencePrefix, false))
	for _, s := range []*redisstore.Store{w.reliable, w.lossy, w.reference} {
		s.UseClock(lostReplyClock)
	}
	return w
}

// TestLostReplies loses the reply to every script and command that writes, after it was executed, and repeats the call as a caller does.
// The repetition must not change what Redis holds, and the result must be the same as that of a single call. In full:
//
//	go test -v -run TestLostReplies ./internal/store/redisstore -lost-replies 10000
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	if _, err := server.Do("SET", lostReplyClock, strconv.FormatInt(time.Now().UnixMilli(), 10)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	counts := newLostReplyCounts(*lostReplyCount)
	var workers sync.WaitGroup
	for range lostReplyWorkers {
		worker := newLostReplyWorker(t, server)
		workers.Go(func() {
			for !t.Failed() {
				i, n := counts.next()
				if n == 0 {
					return
				}
				lost, err := worker.testCall(t.Context(), &allLostReplies[i], fmt.Sprintf("x%d", n))
				if err != nil {
					t.Errorf("%s: %v", allLostReplies[i].name, err)
				}
				if lost {
					counts.add(i)
				}
			}
		})
	}
	workers.Wait()
	each := make([]string, len(allLostReplies))
	for i, lost := range counts.lost {
		each[i] = fmt.Sprintf("%s %d", allLostReplies[i].name, lost)
		if lost == 0 && !t.Failed() {
			t.Errorf("no reply of %s was lost in %d calls", allLostReplies[i].name, maxLostReplyTries)
		}
	}
	took := time.Since(began).Round(time.Second)
	t.Logf("%d replies lost in %d calls and %v: %s", counts.total, counts.made, took, strings.Join(each, ", "))
}

// maxLostReplyTries is how often a call is tried until its own reply is the one that is lost.
const maxLostReplyTries = 100

// lostReplyCounts counts the replies that were lost, and says which call is next.
type lostReplyCounts struct {
	want int64

	mu          sync.Mutex
	at, made    int64 // the last call of the list, counted through, and how many were made
	total       int64
	lost, tries []int64 // by call
}

func newLostReplyCounts(want int64) *lostReplyCounts {
	return &lostReplyCounts{want: want, lost: make([]int64, len(allLostReplies)), tries: make([]int64, len(allLostReplies))}
}

// next returns the call that is next, and how many were made with it: 0 when enough replies were lost and one of each call at least.
func (c *lostReplyCounts) next() (call int, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range c.lost {
		call = int(c.at) % len(c.lost)
		c.at++
		if c.total < c.want || c.lost[call] == 0 && c.tries[call] < maxLostReplyTries {
			c.tries[call]++
			c.made++
			return call, c.made
		}
	}
	return 0, 0
}

func (c *lostReplyCounts) add(call int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[call]++
	c.total++
}

// testCall makes one call and loses its reply. It reports whether the reply was lost after the call was executed: a background write of
// the store, such as the last-seen times, may be lost instead.
func (w *lostReplyWorker) testCall(ctx context.Context, c *lostReply, name string) (bool, error) {
	x := &subject{name: name, prefix: w.prefix, reliable: w.reliable, server: w.server}
	y := &subject{name: name, prefix: w.referencePrefix, reliable: w.reference, server: w.server}
	if err := errors.Join(c.prepare(ctx, x), c.prepare(ctx, y)); err != nil {
		return false, fmt.Errorf("prepare: %w", err)
	}
	before, err := x.state()
	if err != nil {
		return false, err
	}
	dropped := w.proxy.Dropped()
	w.callAndLoseReply(ctx, c, x, before)
	once, err := x.state()
	if err != nil {
		return false, err
	}
	// The last-seen times are written in the background: alone they do not show that the call was executed.
	executed := cmp.Diff(before.withoutLabel("seen"), once.withoutLabel("seen")) != "" || c.done != nil && cmp.Diff(before, once) != ""
	lost := executed && w.proxy.Dropped() > dropped
	answer, err := w.repeatCall(ctx, c, x)
	if err != nil {
		return false, err
	}
	twice, err := x.state()
	if err != nil {
		return false, err
	}
	once, repeated := once.withoutLabel("seen").mask(renewedFields, c.renews...), twice.withoutLabel("seen").mask(renewedFields, c.renews...)
	if diff := cmp.Diff(once, repeated); lost && !c.counts && diff != "" {
		w.t.Errorf("%s had a second effect (-once +twice):\n%s", c.name, diff)
	}
	times := 1
	if c.counts && executed {
		times = 2
	}
	return lost, w.compareWithReference(ctx, c, y, times, answer, twice)
}

// callAndLoseReply makes the call and loses its reply. Its result is ignored.
func (w *lostReplyWorker) callAndLoseReply(ctx context.Context, c *lostReply, x *subject, before redisState) {
	defer w.proxy.DropReplies(0)
	if c.done == nil {
		w.proxy.DropReplies(1)
		_, _ = c.call(ctx, w.lossy, x)
		return
	}
	w.proxy.Delay(30 * time.Millisecond) // time to see that the command was executed before its reply arrives
	defer w.proxy.Delay(0)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		_, _ = c.call(ctx, w.lossy, x)
	}()
	for {
		if now, err := x.state(); err == nil && c.done(before, now) {
			break
		}
		select {
		case <-returned:
			return
		case <-time.After(time.Millisecond):
		}
	}
	w.proxy.DropReplies(1)
	<-returned
}

// repeatCall repeats the call until it is answered. It may take some tries, until the client has reconnected.
func (w *lostReplyWorker) repeatCall(ctx context.Context, c *lostReply, x *subject) (string, error) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		answer, err := c.call(ctx, w.lossy, x)
		if err == nil || !errors.Is(err, store.ErrDown) || time.Now().After(deadline) {
			return answer, err
		}
		run.Sleep(ctx, time.Millisecond)
	}
}

// compareWithReference makes the call where no reply is lost, and compares the results.
func (w *lostReplyWorker) compareWithReference(ctx context.Context, c *lostReply, y *subject, times int, answer string, got redisState) error {
	var want string
	for range times {
		var err error
		if want, err = c.call(ctx, w.reference, y); err != nil {
			return err
		}
	}
	if want != answer {
		w.t.Errorf("%s: the repeated call returned %q, want %q", c.name, answer, want)
	}
	single, err := y.state()
	if err != nil {
		return err
	}
	// Records are compared in their decoded form, because the stored form contains times.
	id := core.JobID(y.name)
	for s, in := range map[*redisstore.Store]redisState{w.reliable: got, w.reference: single} {
		if _, ok := in["record"]; ok {
			job, err := s.Get(ctx, id)
			if err != nil {
				return err
			}
			in["record"] = describeJob(job)
		}
	}
	if diff := cmp.Diff(single.mask(timeFields, c.renews...), got.mask(timeFields, c.renews...)); diff != "" {
		w.t.Errorf("%s: state (-called once +reply lost and call repeated):\n%s", c.name, diff)
	}
	return nil
}

// TestLostRepliesCoverEveryScript: TestLostReplies covers every script that writes.
func TestLostRepliesCoverEveryScript(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, c := range allLostReplies {
		known[c.command] = true
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
		if !strings.HasPrefix(name, "lib") && !known[name] && !strings.Contains(string(text), "Writes nothing.") {
			t.Errorf("%s writes, and TestLostReplies does not lose its reply", file.Name())
		}
	}
}
