package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// watchers delivers every change to those that watch the fleet. Publishing never blocks: a watcher with more than maxBehind
// undelivered changes gets a gap instead.
type watchers struct {
	mu  run.Mutex
	set map[*watcher]struct{}
}

const maxBehind = 4096

type watcher struct {
	mu    run.Mutex
	queue []store.Change
	wake  chan struct{}
}

func (w *watchers) publish(c store.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for watcher := range w.set {
		watcher.push(c)
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

func (w *watcher) drain() []store.Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.queue
	w.queue = nil
	return changes
}

// Watch implements store.NodeReader.
func (s *Store) Watch(ctx context.Context, ready func(), fn func(store.Change)) error {
	w := &watcher{mu: run.NewMutex("memstore_watcher"), wake: make(chan struct{}, 1)}
	s.watchers.mu.Lock()
	if s.watchers.set == nil {
		s.watchers.set = make(map[*watcher]struct{})
	}
	s.watchers.set[w] = struct{}{}
	s.watchers.mu.Unlock()
	defer func() {
		s.watchers.mu.Lock()
		delete(s.watchers.set, w)
		s.watchers.mu.Unlock()
	}()
	ready()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
			for _, c := range w.drain() {
				fn(c)
			}
		}
	}
}
