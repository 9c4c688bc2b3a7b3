package peers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

const (
	servers, slots = 50, 4
	submitters     = 64
	window         = time.Second
	turns          = 9
)

// contender does one job from submission to its end, between start and stop. It runs only in its turn: workers that poll
// for tasks would slow the others down.
type contender struct {
	name  string
	start func(b *testing.B, redis *redistest.Server) (do func(ctx context.Context) error, stop func())
	alone bool // its latency with one submitter is measured, too
}

// BenchmarkLifecycle compares the scheduler with asynq on one Redis, in turn: 64 submitters and 50 workers of four slots
// that finish at once; then one submitter alone. It reports jobs a second, the median time of a job and their ratios, and
// the scheduler's rate as a share of an empty script's through the same client library.
func BenchmarkLifecycle(b *testing.B) {
	redis := redistest.Start(b)
	lingua, peer, ceiling := contender{"lingua", startLingua, true}, contender{"asynq", startAsynq, true}, contender{"evalsha", startCeiling, false}
	for b.Loop() {
		rates, waits := make(map[string][]float64), make(map[string][]float64)
		for range turns {
			for _, c := range []contender{lingua, peer, ceiling} {
				do, stop := c.start(b, redis)
				measureRate(b, c.name, do, window/4) // warm-up of connections and caches
				rates[c.name] = append(rates[c.name], measureRate(b, c.name, do, window))
				if c.alone {
					waits[c.name] = append(waits[c.name], measureLatency(b, c.name, do))
				}
				stop()
				if _, err := redis.Do("FLUSHALL"); err != nil {
					b.Fatal(err)
				}
			}
		}
		ours, theirs, ceilingRate := stats.Median(rates[lingua.name]), stats.Median(rates[peer.name]), stats.Median(rates[ceiling.name])
		b.ReportMetric(ours, "lingua-jobs/s")
		b.ReportMetric(theirs, "asynq-jobs/s")
		b.ReportMetric(ratio(rates[lingua.name], rates[peer.name]), "of-asynq")
		b.ReportMetric(ceilingRate, "evalsha/s")
		b.ReportMetric(ratio(rates[lingua.name], rates[ceiling.name]), "of-evalsha")
		b.ReportMetric(stats.Median(waits[lingua.name]), "lingua-p50-µs")
		b.ReportMetric(stats.Median(waits[peer.name]), "asynq-p50-µs")
		b.ReportMetric(ratio(waits[lingua.name], waits[peer.name]), "p50-of-asynq")
	}
	b.ReportMetric(0, "ns/op")
}

// measureRate has 64 submitters submit for a while and returns jobs a second.
func measureRate(b *testing.B, name string, do func(context.Context) error, during time.Duration) float64 {
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

// measureLatency has one submitter submit for a while and returns the median time of a job, in microseconds.
func measureLatency(b *testing.B, name string, do func(context.Context) error) float64 {
	var took []float64
	for began := time.Now(); time.Since(began) < window; {
		at := time.Now()
		if err := do(b.Context()); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		took = append(took, float64(time.Since(at))/float64(time.Microsecond))
	}
	return stats.Median(took)
}

// ratio is the median of the ratios of each turn: the machine may be slower in one turn than in the next.
func ratio(ours, theirs []float64) float64 {
	parts := make([]float64, len(ours))
	for i := range ours {
		parts[i] = ours[i] / theirs[i]
	}
	return stats.Median(parts)
}

// startLingua starts the scheduler in process, without HTTP: dispatch, ACK, result.
func startLingua(b *testing.B, redis *redistest.Server) (func(context.Context) error, func()) {
	s, stop := inprocess.Start(b, servers, slots, true, func(c *config.Config) { c.Store = redis.URL() })
	return func(ctx context.Context) error {
		_, err := s.Jobs.Dispatch(ctx, dispatch.Request{Unique: true, Spec: core.Spec{
			Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://a",
		}})
		return err
	}, stop
}

// startAsynq starts a task queue with as many workers, which polls for tasks every 20 ms when it has none.
func startAsynq(b *testing.B, redis *redistest.Server) (func(context.Context) error, func()) {
	opt := asynq.RedisClientOpt{Addr: redis.Addr(), DB: 1}
	var waiting sync.Map // from task id to the channel of its submitter
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

// startCeiling runs an empty script.
func startCeiling(b *testing.B, redis *redistest.Server) (func(context.Context) error, func()) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		b.Fatal(err)
	}
	script := rueidis.NewLuaScript("return 1")
	return func(ctx context.Context) error { return script.Exec(ctx, client, []string{"k"}, nil).Error() }, client.Close
}
