package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// failoverLimit is within what time Redis has another primary, and a store follows it, on a busy machine.
const failoverLimit = 30 * time.Second

// pollInterval is between two tries.
const pollInterval = 10 * time.Millisecond

// failovers are ways in which Redis gets another primary without the end of the connections to the old one. Each starts Redis, and returns
// its URL, the primary with the inbox i-1, and what lets another server take its place.
var failovers = map[string]func(t *testing.T) (url string, primary *redistest.Server, failOver func()){
	"planned, with sentinels": func(t *testing.T) (string, *redistest.Server, func()) {
		t.Helper()
		s := redistest.StartSentinel(t)
		return s.URL(), s.Primary(), func() {
			s.FailOver()
			s.KeepOldPrimary()
		}
	},
	"the primary hangs, with sentinels": func(t *testing.T) (string, *redistest.Server, func()) {
		t.Helper()
		s := redistest.StartSentinel(t)
		return s.URL(), s.Primary(), func() { s.Primary().Stop(); s.WaitHealthy(failoverLimit) }
	},
	"the primary hangs, in a cluster": func(t *testing.T) (string, *redistest.Server, func()) {
		t.Helper()
		c := redistest.StartCluster(t)
		primary := c.Owner(c.Slot("test:streams:{instance:i-1}:inbox"))
		return c.URL(), primary, func() { primary.Stop(); c.WaitHealthy(failoverLimit) }
	},
}

// TestBlockingReadsFollowThePrimary: reads that wait for messages and for changes when Redis gets another primary are sent to that one at
// once, and not when their time is over or never.
func TestBlockingReadsFollowThePrimary(t *testing.T) {
	t.Parallel()
	for name, start := range failovers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, primary, failOver := start(t)
			settings := func(o *redisstore.Options) { o.Prefix, o.Timeout = "test", 500*time.Millisecond }
			reader, other := open(t, url, settings), open(t, url, settings)
			presence := store.AnnounceParams{ID: "i-1", TTL: time.Hour}
			if err := other.Announce(t.Context(), presence); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*failoverLimit)
			var reading sync.WaitGroup
			t.Cleanup(func() { cancel(); reading.Wait() })
			messages, changes := make(chan struct{}), make(chan struct{})
			reading.Go(func() {
				defer close(messages)
				for run.Sleep(ctx, pollInterval) {
					if got, err := reader.Fetch(ctx, store.FetchParams{Inbox: "i-1", Wait: time.Hour, Limit: 1}); err == nil && len(got) > 0 {
						return
					}
				}
			})
			reading.Go(func() {
				defer close(changes)
				for seen := false; !seen && run.Sleep(ctx, pollInterval); {
					watch, stop := context.WithCancel(ctx)
					_ = reader.Watch(watch, func() {}, func(c store.Change) {
						if c.Setting == "after the failover" {
							seen = true
							stop()
						}
					})
					stop()
				}
			})
			waitBlocked(t, primary)
			failOver()
			began := time.Now()
			for posted := false; !posted && run.Sleep(ctx, pollInterval); {
				_ = other.Announce(ctx, presence) // Redis may have lost it
				result, err := other.Post(ctx, store.PostParams{To: "i-1", Body: []byte("x"), MaxMessages: 8})
				posted = err == nil && result == store.Accepted
			}
			<-messages
			t.Logf("a message was received %v after the failover", time.Since(began).Round(time.Millisecond))
			// A change that is announced while the reader connects may be part of what it knows then.
			for seen := false; !seen; run.Sleep(ctx, pollInterval) {
				_, _ = other.WriteValue(ctx, store.WriteValueParams{Key: store.ValueKey{Kind: store.SettingValue, Name: "after the failover"}, Announce: true})
				select {
				case <-changes:
					seen = true
				default:
				}
			}
			if ctx.Err() != nil {
				t.Error("the reads did not follow the primary")
			}
		})
	}
}

// waitBlocked waits until a client waits for a message in an inbox.
func waitBlocked(t *testing.T, server *redistest.Server) {
	t.Helper()
	for run.Sleep(t.Context(), pollInterval) {
		list, err := server.Do("CLIENT", "LIST")
		if err != nil {
			t.Fatal(err)
		}
		for client := range strings.Lines(fmt.Sprint(list)) {
			if strings.Contains(client, "cmd=xreadgroup") && strings.Contains(client, "flags=b") {
				return
			}
		}
	}
}
