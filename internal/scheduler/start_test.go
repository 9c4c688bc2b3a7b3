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
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

// journal keeps what a scheduler logs.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

// lines are the lines that begin with some words, as objects.
func (j *journal) lines(t *testing.T, begins string) []map[string]any {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []map[string]any
	for line := range strings.Lines(j.b.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if text, _ := entry["msg"].(string); strings.HasPrefix(text, begins) {
			found = append(found, entry)
		}
	}
	return found
}

// brieflyRun starts a scheduler that stops at once, and returns what it logged.
func brieflyRun(t *testing.T, cfg config.Config) *journal {
	t.Helper()
	j := new(journal)
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

// TestListeningSaysWho it is, where it is reached, and everything that instances of one fleet must have in common.
func TestListeningSaysWho(t *testing.T) {
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
			lines := brieflyRun(t, cfg).lines(t, "listening")
			if len(lines) != 1 {
				t.Fatalf("%d lines say that it listens", len(lines))
			}
			line := lines[0]
			for key, want := range c.want {
				if line[key] != want {
					t.Errorf("%s is %v, want %v", key, line[key], want)
				}
			}
			for _, key := range c.absent {
				if _, there := line[key]; there {
					t.Errorf("it speaks of %s", key)
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

// TestAnAddressNobodyElseReaches is warned of: an instance that listens for others must have one at which they reach it.
func TestAnAddressNobodyElseReaches(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for name, c := range map[string]struct {
		host, store, given string
		warned             string
	}{
		"this machine only":             {host: "127.0.0.1", store: "memory"},
		"everywhere, alone":             {host: "0.0.0.0", store: "memory", warned: "http://0.0.0.0:"},
		"everywhere, Redis beside it":   {host: "0.0.0.0", store: redis.URL(), warned: "http://127.0.0.1:"},
		"everywhere, given where it is": {host: "0.0.0.0", store: redis.URL(), given: "http://10.0.0.1:5010"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config.Default()
			cfg.Server.Host, cfg.Server.Port, cfg.Server.Insecure, cfg.Server.AdvertiseURL, cfg.Store = c.host, 0, true, c.given, c.store
			lines := brieflyRun(t, cfg).lines(t, "this instance listens for other machines")
			switch {
			case c.warned == "" && len(lines) > 0:
				t.Errorf("it is warned of: %v", lines)
			case c.warned == "":
			case len(lines) != 1 || lines[0]["level"] != "WARN" || !strings.HasPrefix(lines[0]["advertise_url"].(string), c.warned):
				t.Errorf("want a warning of %s, got %v", c.warned, lines)
			}
		})
	}
}

// TestRedisThatRefusesAtStart: whoever reads it learns which settings to look at, and no secret.
func TestRedisThatRefusesAtStart(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	do(t, redis, "CONFIG", "SET", "requirepass", "the-right-one")
	cfg := config.Default()
	cfg.Store = "redis://:s3cret@" + redis.Addr() + "/0"
	_, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err == nil {
		t.Fatal("it starts")
	}
	for _, says := range []string{"user or password", "is said by store, scheduler.phase2.redis.username and scheduler.phase2.redis.password"} {
		if !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("want %q and no secret in %q", says, err)
		}
	}
}
