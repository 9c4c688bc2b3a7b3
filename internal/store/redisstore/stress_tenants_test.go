package redisstore_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestTenantLimitOfManyInstances: instances admit jobs of one tenant while replies of one of them are lost. The jobs that callers know to be
// admitted are never more than the limit, and in the end none is counted.
func TestTenantLimitOfManyInstances(t *testing.T) {
	t.Parallel()
	const limit, workers, rounds = 4, 4, 60
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	prefix := ""
	share := func(o *redisstore.Options) {
		if prefix != "" {
			o.Prefix = prefix
		}
		prefix, o.Timeout = o.Prefix, 5*time.Second
	}
	instances := []*redisstore.Store{open(t, server.URL(), share), open(t, server.URL(), share), open(t, proxy.URL(), share)}
	ctx := t.Context()
	var running, highest, admitted, uncertain atomic.Int64
	var wg sync.WaitGroup
	for i, s := range instances {
		for worker := range workers {
			wg.Go(func() {
				for round := range rounds {
					if i == 2 && round%10 == 0 {
						proxy.DropReplies(1)
					}
					p := store.MemberParams{
						Tenant: "acme", Kind: store.TenantJob, Member: fmt.Sprintf("%d-%d-%d", i, worker, round), Keep: time.Minute,
						Limits: core.TenantLimits{InFlight: limit},
					}
					v, err := s.AdmitMember(ctx, p)
					switch {
					case err != nil: // it may be counted, and is never a job
						uncertain.Add(1)
					case v.Refused != store.NoLimit:
						continue
					default:
						admitted.Add(1)
						now := running.Add(1)
						for old := highest.Load(); now > old && !highest.CompareAndSwap(old, now); old = highest.Load() {
						}
						_, _ = s.ReadTenants(ctx, []core.TenantID{"acme"}) // it runs for as long as a call takes
						running.Add(-1)
					}
					removeUntilAnswered(ctx, t, s, p)
				}
			})
		}
	}
	wg.Wait()
	use, err := instances[0].ReadTenants(ctx, []core.TenantID{"acme"})
	if highest.Load() > limit || err != nil || use[0].InFlight != 0 {
		t.Errorf("%d at once, want %d at most; %+v is left, %v", highest.Load(), limit, use, err)
	}
	if admitted.Load() == 0 || uncertain.Load() == 0 {
		t.Errorf("%d were admitted and %d uncertain, want some of both", admitted.Load(), uncertain.Load())
	}
}

// removeUntilAnswered removes a member as an instance does: until the store answers.
func removeUntilAnswered(ctx context.Context, t *testing.T, s *redisstore.Store, p store.MemberParams) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := s.RemoveMember(ctx, p)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Error(err)
			return
		}
		run.Sleep(ctx, time.Millisecond)
	}
}
