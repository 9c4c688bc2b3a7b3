package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestNewStartsNothing makes a scheduler and drops it: the check for goroutines at the end of the tests
// would find what it started.
func TestNewStartsNothing(t *testing.T) {
	t.Parallel()
	newScheduler(t, config.Default())
}

// TestNewNamesInvalidKey: the error for an invalid configuration names the key.
func TestNewNamesInvalidKey(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Callback.AllowedTargets = []string{"everywhere"}
	_, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err == nil || !strings.Contains(err.Error(), "callback.allowed_targets") {
		t.Errorf("want the key named, got %v", err)
	}
}

// logBuffer collects the log of a scheduler.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.buf.Write(p)
}

// lines returns the log entries whose message has a prefix.
func (j *logBuffer) lines(t *testing.T, prefix string) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(j.buf.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if text, _ := entry["msg"].(string); strings.HasPrefix(text, prefix) {
			found = append(found, entry)
		}
	}
	return found
}

// runBriefly runs a scheduler that stops at once, and returns its log.
func runBriefly(t *testing.T, cfg config.Config) *logBuffer {
	t.Helper()
	patient(&cfg)
	j := new(logBuffer)
	s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.NewJSONHandler(j, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(ctx, l); err != nil {
		t.Fatal(err)
	}
	return j
}

// TestListeningLogsInstanceAndStore: the log has the instance, its URL, and the settings that all instances of a fleet must share.
func TestListeningLogsInstanceAndStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   map[string]any
		absent []string
	}{
		"alone": {
			change: func(*config.Config) {},
			want:   map[string]any{"store": "memory"}, absent: []string{"database", "key_prefix"},
		},
		"shared": {
			change: func(c *config.Config) {
				c.Store = "redis://" + redis.Addr() + "/3"
				c.Scheduler.Phase2.Redis.KeyPrefix, c.Scheduler.Phase2.InstanceID = "one-fleet", "east"
			},
			want: map[string]any{"store": "redis://" + redis.Addr() + "/3", "database": 3.0, "key_prefix": "one-fleet"},
		},
		"advertised": {
			change: func(c *config.Config) { c.Server.AdvertiseURL = "http://10.0.0.1:5010" },
			want:   map[string]any{"advertise_url": "http://10.0.0.1:5010"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Server.Port = 0
			c.change(&cfg)
			lines := runBriefly(t, cfg).lines(t, "listening")
			if len(lines) != 1 {
				t.Fatalf("%d log lines of listening, want 1", len(lines))
			}
			line := lines[0]
			for key, want := range c.want {
				if line[key] != want {
					t.Errorf("%s is %v, want %v", key, line[key], want)
				}
			}
			for _, key := range c.absent {
				if _, found := line[key]; found {
					t.Errorf("the log has %s", key)
				}
			}
			if id, _ := line["instance"].(string); id == "" || !strings.HasPrefix(id, strings.Replace(cfg.Scheduler.Phase2.InstanceID, "auto", "i", 1)+"-") {
				t.Errorf("instance is %v", line["instance"])
			}
			if cfg.Server.AdvertiseURL == "" && line["advertise_url"] != "http://"+line["address"].(string) {
				t.Errorf("advertise_url is %v", line["advertise_url"])
			}
		})
	}
}

// TestWarnWithoutReachableAddress: an instance that listens on all addresses must have one at which other machines reach it.
func TestWarnWithoutReachableAddress(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for name, c := range map[string]struct {
		host, store, advertise string
		warned                 string
	}{
		"loopback":                      {host: "127.0.0.1", store: "memory"},
		"all addresses, alone":          {host: "0.0.0.0", store: "memory", warned: "http://0.0.0.0:"},
		"all addresses, local Redis":    {host: "0.0.0.0", store: redis.URL(), warned: "http://127.0.0.1:"},
		"all addresses, configured URL": {host: "0.0.0.0", store: redis.URL(), advertise: "http://10.0.0.1:5010"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Server.Host, cfg.Server.Port, cfg.Server.Insecure, cfg.Server.AdvertiseURL, cfg.Store = c.host, 0, true, c.advertise, c.store
			lines := runBriefly(t, cfg).lines(t, "this instance listens for other machines")
			switch {
			case c.warned == "" && len(lines) > 0:
				t.Errorf("unexpected warning: %v", lines)
			case c.warned == "":
			case len(lines) != 1 || lines[0]["level"] != "WARN" || !strings.HasPrefix(lines[0]["advertise_url"].(string), c.warned):
				t.Errorf("want a warning about %s, got %v", c.warned, lines)
			}
		})
	}
}

// TestStartErrorNamesRedisSettings: the error names the settings to check, and contains no secret.
func TestStartErrorNamesRedisSettings(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	do(t, redis, "CONFIG", "SET", "requirepass", "the-right-one")
	cfg := config.Default()
	cfg.Store = "redis://:s3cret@" + redis.Addr() + "/0"
	_, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		t.Fatal("it started")
	}
	for _, want := range []string{"user or password", "are configured by store, scheduler.phase2.redis.username and scheduler.phase2.redis.password"} {
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("want %q and no secret in %q", want, err)
		}
	}
}
