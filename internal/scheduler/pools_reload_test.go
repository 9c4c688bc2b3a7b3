package scheduler_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestReloadOfPoolsWithoutRedis: while Redis is down, a reload that would publish pools says so and changes nothing, one that would not puts
// keys in force; and when Redis is back the pools are published.
func TestReloadOfPoolsWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	file := &keysFile{t, filepath.Join(t.TempDir(), "lingua.toml")}
	write := func(more string, ages ...string) {
		t.Helper()
		file.write(ages...)
		text, err := os.ReadFile(file.path)
		if err != nil {
			t.Fatal(err)
		}
		file.replace(file.path, string(text)+more)
	}
	write("", "old")
	cfg, _, err := file.load(redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	s, url := runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
	s.SetConfigSource(func() (config.Config, []string, error) { return file.load(redis.URL()) })
	api := lab.NewAPI(url)
	defer api.Close()
	api.Token = secretOf("operator", "old")
	before := s.Keyring().Digest()

	retryWhileDown(t, func() error { return api.Get(t.Context(), "/v1/nodes", new(wire.NodeList)) }) // it serves
	redis.Kill()
	write("[scheduler.phase3]\nenabled = true\npool_count = 3\n", "old", "new")
	var e *wire.Error
	err = api.Post(t.Context(), "/v1/config/reload", nil, new(wire.ReloadResponse))
	if !errors.As(err, &e) || e.Code != wire.SchedulerDependencyDown || !strings.Contains(e.Detail, "nothing was changed") || e.RetryAfterMS == 0 {
		t.Errorf("%+v, want that the store does not answer", err)
	}
	if s.Keyring().Digest() != before || s.Fleet.Division() != nil {
		t.Error("a reload that failed has changed something")
	}
	write("", "new", "old")
	var out wire.ReloadResponse
	if err := api.Post(t.Context(), "/v1/config/reload", nil, &out); err != nil || len(out.Changed) == 0 || s.Keyring().Digest() == before {
		t.Errorf("%+v, %v, want other keys in force", out, err)
	}
	write("[scheduler.phase3]\nenabled = true\npool_count = 3\n", "new", "old")
	redis.Restart()
	retryWhileDown(t, func() error { return api.Post(t.Context(), "/v1/config/reload", nil, &out) })
	waitUntil(t, "the pools", waitLimit, func() bool { return s.Fleet.Division() != nil })
	if got := len(s.Fleet.Division().IDs()); got != 3 {
		t.Errorf("%d pools, want 3", got)
	}
}

// TestPoolsOutliveAnEmptiedRedis: Redis is emptied while instances run, and another one starts, without pools or with ones that were replaced. The
// pools of those that run stay in force, and the new one has them.
func TestPoolsOutliveAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]config.Phase3{"without pools": {}, "with replaced pools": poolTables()[2]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			cfg, next := config.Default(), config.Default()
			cfg.Scheduler.Phase3, next.Scheduler.Phase3 = poolTables()[2], poolTables()[0]
			all := startCluster(t, redis.URL(), cfg, nil)
			all[0].SetConfigSource(func() (config.Config, []string, error) { return next, nil, nil })
			retryWhileDown(t, func() error {
				_, err := all[0].Reload(config.ReloadRequest{})
				return err
			})
			adopted := func() bool {
				generation := int64(0)
				for _, in := range all {
					var o wire.PoolOverview
					if in.peer.Get(t.Context(), "/api/v1/phase3/pools", &o) != nil || len(o.Pools) != 2 || o.Pools[0].PoolID != "gold" || generation > 0 && o.Generation != generation {
						return false
					}
					generation = o.Generation
				}
				stored, err := redis.Do("HGET", "lingua:v1:settings:pools", "generation")
				return err == nil && stored == strconv.FormatInt(generation, 10)
			}
			waitUntil(t, "both instances to adopt the pools", waitLimit, adopted)
			do(t, redis, "FLUSHALL")
			cfg.Scheduler.Phase3 = table
			all = append(all, startInstances(t, 1, redis.URL(), cfg, nil)...)
			waitUntil(t, "all instances and Redis to have the pools of those that ran", waitLimit, adopted)
			for i, in := range all {
				if d := in.Fleet.Division(); d == nil || d.Seed != 0 {
					t.Errorf("instance %d has %+v", i, d)
				}
			}
		})
	}
}
