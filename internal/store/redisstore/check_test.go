package redisstore_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// refusal is why a store is not opened.
func refusal(t *testing.T, url string) string {
	t.Helper()
	address, err := redisstore.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		Address: address, Prefix: "test", Timing: timing, Timeout: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		_ = s.Close()
		t.Fatalf("%s is opened", url)
	}
	return err.Error()
}

// TestOpenRefuses a Redis that cannot keep the promises, and says how to mend it.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithConfig("replicaof", strings.ReplaceAll(plain.Addr(), ":", " ")))
	cluster := redistest.StartCluster(t)
	gone, closed := redistest.Start(t), redistest.Start(t)
	gone.Kill()
	if _, err := closed.Do("CONFIG", "SET", "requirepass", "s3cret"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ url, says string }{
		"one that evicts": {
			redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru")).URL(), "set maxmemory-policy to noeviction",
		},
		"one that asks for a password": {closed.URL(), "password"},
		"a replica":                    {replica.URL(), "name the primary"},
		"a part of a cluster":          {cluster.Servers()[0].URL(), "redis-cluster://"},
		"none":                         {gone.URL(), "cannot reach Redis at " + gone.URL()[:len(gone.URL())-2]},
		"no cluster":                   {strings.Replace(gone.URL(), "redis://", "redis-cluster://", 1), "cannot reach Redis"},
		"no sentinel":                  {"redis-sentinel://" + gone.Addr() + "/main", "cannot reach Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := refusal(t, c.url); !strings.Contains(got, c.says) || strings.Contains(got, "s3cret") {
				t.Errorf("%q does not say %q", got, c.says)
			}
		})
	}
}

// TestOpenWarns of replicas that nobody waits for.
func TestOpenWarns(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	open(t, redistest.StartSentinel(t).URL(), func(o *redisstore.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if !strings.Contains(log.String(), "min-replicas-to-write") {
		t.Errorf("there is no word about it: %s", log.String())
	}
}

// TestTimesThatALeaseCannotHold are refused before anything is asked.
func TestTimesThatALeaseCannotHold(t *testing.T) {
	t.Parallel()
	address, err := redisstore.ParseAddress("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	long := timing
	long.Attempt = 2 * time.Hour
	_, err = redisstore.Open(t.Context(), redisstore.Options{Address: address, Timing: long, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "attempt_timeout_ms") {
		t.Errorf("%v, want a word about attempt_timeout_ms", err)
	}
}
