package memstore

import (
	"context"
	"sync"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// watchers hands every change to whoever follows the fleet. Publishing never waits: a follower that falls
// behind by more than maxBehind is told that it missed something.
type watchers struct {
	mu  sync.Mutex
	all map[*watcher]struct{}
}

const maxBehind = 4096

type watcher struct {
	mu    sync.Mutex
	queue []store.Change
	wake  chan struct{}
}

func (w *watchers) publish(c store.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one := range w.all {
		one.push(c)
	}
}

func (w *watcher) push(c store.Change) {
	w.mu.Lock()
	if len(w.queue) >= maxBehind {
		w.queue = append(w.queue[:0], store.Change{Gap: true})
	}
	w.queue = append(w.queue, c)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []store.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.queue
	w.queue = nil
	return taken
}

// Watch implements store.Census.
func (s *Store) Watch(ctx context.Context, ready func(), fn func(store.Change)) error {
	w := &watcher{wake: make(chan struct{}, 1)}
	s.watchers.mu.Lock()
	if s.watchers.all == nil {
		s.watchers.all = make(map[*watcher]struct{})
	}
	s.watchers.all[w] = struct{}{}
	s.watchers.mu.Unlock()
	defer func() {
		s.watchers.mu.Lock()
		delete(s.watchers.all, w)
		s.watchers.mu.Unlock()
	}()
	ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
			for _, c := range w.take() {
				fn(c)
			}
		}
	}
}
