package pools

import (
	"context"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// announcements say when the setting is to be read. Each channel holds one element.
type announcements struct {
	announced chan struct{} // the setting may have changed
	busy      chan struct{} // other changes come: an announcement may be behind them
}

func newAnnouncements() announcements {
	return announcements{announced: make(chan struct{}, 1), busy: make(chan struct{}, 1)}
}

// signal puts an element into a channel that has none.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait waits until the setting is to be read: after an interval, earlier while changes come, and at once when it is announced. It returns
// false if the context ended.
func (a *announcements) wait(ctx context.Context, interval time.Duration) bool {
	began := time.Now()
	timer := time.NewTimer(run.Jitter(interval, jitter))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.announced:
	case <-ctx.Done():
	case <-a.busy:
		timer.Reset(run.Jitter(busyInterval, jitter) - time.Since(began))
		select {
		case <-timer.C:
		case <-a.announced:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// Watching returns a reader of nodes by whose watch the follower learns when the setting is announced. So one stream of changes serves the
// nodes and the setting. Changes of nodes are passed on.
func (f *Follower) Watching(nodes store.NodeReader) store.NodeReader {
	return &watchedNodes{NodeReader: nodes, announcements: &f.announcements}
}

type watchedNodes struct {
	store.NodeReader
	*announcements
}

// Watch implements store.NodeReader.
func (w *watchedNodes) Watch(ctx context.Context, ready func(), fn func(store.Change)) error {
	return w.NodeReader.Watch(ctx, func() {
		signal(w.announced) // what was announced before the watch began was missed
		ready()
	}, func(c store.Change) {
		switch {
		case c.Setting == settingName || c.Gap:
			signal(w.announced)
		default:
			signal(w.busy)
		}
		if c.Setting == "" {
			fn(c)
		}
	})
}
