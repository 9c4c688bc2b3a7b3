package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// classCounter counts the errors that a store reports.
type classCounter struct {
	mu     sync.Mutex
	counts map[store.ErrorClass]int
}

func (c *classCounter) add(class store.ErrorClass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[store.ErrorClass]int)
	}
	c.counts[class]++
}

func (c *classCounter) get(class store.ErrorClass) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[class]
}

func (c *classCounter) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.counts)
}

// callUntil calls a store until an error of a class is counted.
func (c *classCounter) callUntil(t *testing.T, s *redisstore.Store, class store.ErrorClass) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); c.get(class) == 0; {
		_ = s.Ping(t.Context())
		if time.Now().After(end) {
			t.Fatalf("no error of class %s is counted, only %v", class, c)
		}
	}
}

// TestErrorsAreCountedByClass makes a Redis fail in several ways.
func TestErrorsAreCountedByClass(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	var counter classCounter
	s := open(t, r.URL(), func(o *redisstore.Options) { o.OnError = counter.add })
	if _, err := s.Get(t.Context(), "job-1"); err == nil {
		t.Fatal("there is a job")
	}
	watching, stopWatching := context.WithCancel(t.Context())
	if err := s.Watch(watching, stopWatching, func(store.Change) {}); err == nil {
		t.Error("a watch ended without an error")
	}
	if got := counter.String(); got != "map[]" {
		t.Errorf("a job and a stream of changes that do not exist count as errors: %s", got)
	}

	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := s.Get(expired, "job-1"); err == nil || counter.get(store.ErrorDeadline) != 1 {
		t.Errorf("after a call past its deadline: %v, %v", err, &counter)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	before := counter.String()
	if _, err := s.Get(left, "job-1"); err == nil || counter.String() != before {
		t.Errorf("after a call whose caller has left: %v, %v, before %s", err, &counter, before)
	}

	s = open(t, r.URL(), func(o *redisstore.Options) { o.Timeout, o.OnError = 500*time.Millisecond, counter.add })
	r.Stop()
	counter.callUntil(t, s, store.ErrorTimeout)
	counter.callUntil(t, s, store.ErrorBreaker)
	r.Continue()
	for end := time.Now().Add(20 * time.Second); s.Ping(t.Context()) != nil; {
		if time.Now().After(end) {
			t.Fatal("Redis is not available again")
		}
	}
	if _, err := r.Do("CONFIG", "SET", "min-replicas-to-write", "1"); err != nil {
		t.Fatal(err)
	}
	counter.callUntil(t, s, store.ErrorReadOnly)
}

// TestClassOfError checks errors that a test cannot easily cause.
func TestClassOfError(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for want, list := range map[store.ErrorClass][]error{
		"":                    {context.Canceled},
		store.ErrorConnection: {refused, io.EOF, rueidis.ErrClosing, fmt.Errorf("%w: %w", store.ErrDown, syscall.ECONNRESET)},
		store.ErrorTimeout:    {redisstore.ErrTimeout, fmt.Errorf("%w: %w", store.ErrDown, context.DeadlineExceeded)},
		store.ErrorDeadline:   {context.DeadlineExceeded},
		store.ErrorBreaker:    {fmt.Errorf("%w: %w", store.ErrDown, store.ErrBreakerOpen)},
		store.ErrorTooLate:    {fmt.Errorf("reserve: %w", redisstore.ErrLate)},
		store.ErrorOther:      {io.ErrShortWrite},
	} {
		for _, err := range list {
			if got := redisstore.ClassOf(err); got != want {
				t.Errorf("%v is of class %q, want %q", err, got, want)
			}
		}
	}
	for text, want := range map[string]store.ErrorClass{
		"NOSCRIPT No matching script": "", "NOGROUP No such key": "", "UNBLOCKED the stream key no longer exists": "", "no such key": "",
		"LOADING Redis is loading the dataset in memory": store.ErrorLoading, "OOM command not allowed": store.ErrorFull,
		"READONLY You can't write": store.ErrorReadOnly, "MISCONF Redis is configured to save": store.ErrorReadOnly, "NOREPLICAS Not enough": store.ErrorReadOnly,
		"MASTERDOWN Link with MASTER is down": store.ErrorReadOnly, "CLUSTERDOWN Hash slot not served": store.ErrorCluster,
		"MOVED 1 127.0.0.1:1": store.ErrorCluster, "TRYAGAIN Multiple keys": store.ErrorCluster, "BUSY Redis is busy": store.ErrorBusy,
		"NOAUTH Authentication required.": store.ErrorAuth, "WRONGPASS invalid": store.ErrorAuth, "NOPERM this user": store.ErrorAuth,
		"ERR Error running script": store.ErrorReply, "WRONGTYPE Operation": store.ErrorReply, "": store.ErrorReply,
	} {
		if got := redisstore.ClassOfReply(text); got != want {
			t.Errorf("%q is of class %q, want %q", text, got, want)
		}
	}
}

// TestErrorClassesAreListed checks that every class of an unavailable reply is among those that are counted.
func TestErrorClassesAreListed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"LOADING", "READONLY", "OOM", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "BUSY", "NOAUTH", "WRONGPASS", "NOPERM", "x"} {
		if class := redisstore.ClassOfReply(text); !slices.Contains(store.ErrorClasses(), class) {
			t.Errorf("%s is of class %q, which is not listed", text, class)
		}
	}
}
