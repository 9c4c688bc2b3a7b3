package server

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// readWait is how long a read waits for its turn.
	readWait = time.Second
	// readRest is how many times as long as a read took its slot stays taken: reads get a fifth of the processors that their slots stand
	// for.
	readRest = 4
	// minReadRest and maxReadRest bound that: what a short read costs is not only its own time, and most of a long one is a wait for the
	// store, or for other instances.
	minReadRest = 10 * time.Millisecond
	maxReadRest = 200 * time.Millisecond
)

// readLimit bounds the reads that people ask for, at a time and in processor time, of each key and together: dispatch shares the processors
// with them.
type readLimit struct {
	all   chan struct{} // holds an element for each read
	ofKey int

	mu   run.Mutex // guards the rest
	keys map[string]*keyReads
}

// keyReads are the reads of a key.
type keyReads struct {
	slots chan struct{} // holds an element for each read
	users int           // reads that hold a slot or wait for one
}

func newReadLimit() *readLimit {
	processors := runtime.GOMAXPROCS(0)
	return &readLimit{
		all: make(chan struct{}, 2*processors), ofKey: processors,
		mu: run.NewMutex("server_reads"), keys: make(map[string]*keyReads),
	}
}

// limit is the handler of a route of reads for people. Another instance has limited what it asks for on behalf of its caller.
func (l *readLimit) limit(r *route, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		req = req.WithContext(store.ForPeople(req.Context()))
		if r.peers && req.Header.Get(auth.Header) != "" {
			next(w, req)
			return
		}
		end, ok := l.begin(req.Context())
		if !ok {
			e := wire.Errorf(wire.RateLimited, "there are too many reads at a time: ask less often").RetryIn(readWait)
			callOf(req.Context()).fail(e, limitReads)
			writeWireError(w, e)
			return
		}
		defer end()
		next(w, req)
	}
}

// begin waits for the turn of a read of the caller. The function ends the read.
func (l *readLimit) begin(ctx context.Context) (end func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	name := principalOf(ctx).Key
	key := l.join(name)
	if !acquire(ctx, key.slots) {
		l.leave(name)
		return nil, false
	}
	if !acquire(ctx, l.all) {
		<-key.slots
		l.leave(name)
		return nil, false
	}
	began := time.Now()
	return func() {
		time.AfterFunc(min(max(readRest*time.Since(began), minReadRest), maxReadRest), func() {
			<-l.all
			<-key.slots
			l.leave(name)
		})
	}, true
}

func acquire(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// join returns the reads of a key, which are kept until leave was called as often.
func (l *readLimit) join(name string) *keyReads {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := l.keys[name]
	if key == nil {
		key = &keyReads{slots: make(chan struct{}, l.ofKey)}
		l.keys[name] = key
	}
	key.users++
	return key
}

func (l *readLimit) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key := l.keys[name]; key != nil {
		if key.users--; key.users == 0 {
			delete(l.keys, name)
		}
	}
}
