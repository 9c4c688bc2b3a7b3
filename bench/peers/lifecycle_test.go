package peers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

const (
	servers, slots = 50, 4
	submitters     = 64
	window         = time.Second
	turns          = 9
)

// contender does one job from submission to its end, between start and stop. It runs only in its turn: workers that
// look for tasks while they have none would slow the others down.
type contender struct {
	name  string
	start func(b *testing.B, redis *redistest.Server) (do func(ctx context.Context) error, stop func())
	alone bool // its time with one submitter is measured too
}

// BenchmarkLifecycle lets the scheduler and asynq take turns on one Redis: 64 submitters and 50 workers of four slots
// that finish at once; then one submitter alone. It reports jobs a second and the median time of a job, and what each
// is to the other; and the scheduler's rate as a share of the emptiest script through the same client library.
func BenchmarkLifecycle(b *testing.B) {
	redis := redistest.Start(b)
	lingua, peer, ceiling := contender{"lingua", startLingua, true}, contender{"asynq", startAsynq, true}, contender{"evalsha", startCeiling, false}
	for b.Loop() {
		rates, waits := make(map[string][]float64), make(map[string][]float64)
		for range turns {
			for _, c := range []contender{lingua, peer, ceiling} {
				do, stop := c.start(b, redis)
				crowd(b, c.name, do, window/4) // until connections are made and caches are warm
				rates[c.name] = append(rates[c.name], crowd(b, c.name, do, window))
				if c.alone {
					waits[c.name] = append(waits[c.name], alone(b, c.name, do))
				}
				stop()
				if _, err := redis.Do("FLUSHALL"); err != nil {
					b.Fatal(err)
				}
			}
		}
		ours, theirs, most := median(rates[lingua.name]), median(rates[peer.name]), median(rates[ceiling.name])
		b.ReportMetric(ours, "lingua-jobs/s")
		b.ReportMetric(theirs, "asynq-jobs/s")
		b.ReportMetric(ratio(rates[lingua.name], rates[peer.name]), "of-asynq")
		b.ReportMetric(most, "evalsha/s")
		b.ReportMetric(ratio(rates[lingua.name], rates[ceiling.name]), "of-evalsha")
		b.ReportMetric(median(waits[lingua.name]), "lingua-p50-µs")
		b.ReportMetric(median(waits[peer.name]), "asynq-p50-µs")
		b.ReportMetric(ratio(waits[lingua.name], waits[peer.name]), "p50-of-asynq")
	}
	b.ReportMetric(0, "ns/op")
}

// crowd lets 64 submitters submit for a while and returns jobs a second.
func crowd(b *testing.B, name string, do func(context.Context) error, during time.Duration) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), during)
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range submitters {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := do(b.Context()); err != nil {
					b.Errorf("%s: %v", name, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// alone lets one submitter submit for a while and returns the median time of a job, in microseconds.
func alone(b *testing.B, name string, do func(context.Context) error) float64 {
	var took []float64
	for began := time.Now(); time.Since(began) < window; {
		at := time.Now()
		if err := do(b.Context()); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		took = append(took, float64(time.Since(at))/float64(time.Microsecond))
	}
	return median(took)
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// ratio is the median of what one is to the other, turn by turn: the machine may be slower in one turn than in the next.
func ratio(ours, theirs []float64) float64 {
	parts := make([]float64, len(ours))
	for i := range ours {
		parts[i] = ours[i] / theirs[i]
	}
	return median(parts)
}

// startLingua is the scheduler in process, without HTTP: dispatch, ACK, result.
func startLingua(b *testing.B, redis *redistest.Server) (func(context.Context) error, func()) {
	s, stop := inprocess.Start(b, servers, slots, true, func(c *config.Config) { c.Store = redis.URL() })
	return func(ctx context.Context) error {
		_, err := s.Jobs.Dispatch(ctx, dispatch.Request{Unique: true, Spec: core.Spec{
			Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
		}})
		return err
	}, stop
}

// startAsynq is a task queue with as many workers, that looks for tasks every 20 ms when it has none.
func startAsynq(b *testing.B, redis *redistest.Server) (func(context.Context) error, func()) {
	opt := asynq.RedisClientOpt{Addr: redis.Addr(), DB: 1}
	var waiting sync.Map // from task id to who waits for it
	handler := asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		if done, ok := waiting.LoadAndDelete(t.ResultWriter().TaskID()); ok {
			close(done.(chan struct{}))
		}
		return nil
	})
	var started []*asynq.Server
	for range servers {
		srv := asynq.NewServer(opt, asynq.Config{Concurrency: slots, TaskCheckInterval: 20 * time.Millisecond, LogLevel: asynq.FatalLevel})
		if err := srv.Start(handler); err != nil {
			b.Fatal(err)
		}
		started = append(started, srv)
	}
	client := asynq.NewClient(opt)
	var n atomic.Int64
	do := func(ctx context.Context) error {
		id, done := fmt.Sprintf("t-%d", n.Add(1)), make(chan struct{})
		waiting.Store(id, done)
		if _, err := client.EnqueueContext(ctx, asynq.NewTask("utterance", []byte(`{"session_id":"room","audio_ref":"blob://a"}`)), asynq.TaskID(id)); err != nil {
			return err
		}
		<-done
		return nil
	}
	return do, func() {
		_ = client.Close()
		var wg sync.WaitGroup
		for _, srv := range started {
			wg.Go(srv.Shutdown)
		}
		wg.Wait()
	}
}

// startCeiling is the emptiest script there is.
func startCeiling(b *testing.B, redis *redistest.Server) (func(context.Context) error, func()) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	script := rueidis.NewLuaScript("return 1")
	return func(ctx context.Context) error { return script.Exec(ctx, client, []string{"k"}, nil).Error() }, client.Close
}
