package redisstore_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// openError returns the error of opening a store at an unsuitable Redis.
func openError(t *testing.T, url string) string {
	t.Helper()
	address, err := redisstore.ParseAddress(url)
	if err != nil {
		t.Fatal(err)
	}
	s, err := redisstore.Open(t.Context(), redisstore.Options{
		Address: address, Prefix: "test", Timing: timing, Timeout: callTimeout, Log: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		_ = s.Close()
		t.Fatalf("%s was opened", url)
	}
	return err.Error()
}

// TestOpenRefusesUnsuitableRedis: the error of a Redis that cannot keep the promises of a store says how to fix it.
func TestOpenRefusesUnsuitableRedis(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	replica := redistest.Start(t, redistest.WithConfig("replicaof", strings.ReplaceAll(plain.Addr(), ":", " ")))
	cluster := redistest.StartCluster(t).WithoutFailover()
	stopped, protected := redistest.Start(t), redistest.Start(t)
	stopped.Kill()
	if _, err := protected.Do("CONFIG", "SET", "requirepass", "s3cret"); err != nil {
		t.Fatal(err)
	}
	limited := redistest.StartSentinel(t).WithoutFailover()
	for _, s := range limited.Servers() {
		addUser(t, s, slices.DeleteFunc(listedCommands(t), func(name string) bool { return name == "role" }))
	}
	blind := redistest.Start(t)
	addUser(t, blind, slices.DeleteFunc(listedCommands(t), func(name string) bool { return name == "info" }))
	for name, c := range map[string]struct{ url, want string }{
		"an evicting server": {
			redistest.Start(t, redistest.WithConfig("maxmemory-policy", "allkeys-lru")).URL(), "set maxmemory-policy to noeviction",
		},
		"a server with a password": {protected.URL(), "password"},
		"a user without ROLE":      {asUser(limited.URL()), "no permissions to run the 'role' command"},
		"a user without INFO":      {asUser(blind.URL()), "no permissions to run the 'info' command"},
		"a wrong password":         {strings.Replace(asUser(blind.URL()), "password", "s3cret", 1), "refuses this user or password"},
		"a replica":                {replica.URL(), "name the primary"},
		"a member of a cluster":    {cluster.Servers()[0].URL(), "redis-cluster://"},
		"no server":                {stopped.URL(), "cannot reach Redis at " + stopped.URL()[:len(stopped.URL())-2]},
		"no cluster":               {strings.Replace(stopped.URL(), "redis://", "redis-cluster://", 1), "cannot reach Redis"},
		"no sentinel":              {"redis-sentinel://" + stopped.Addr() + "/main", "cannot reach Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := openError(t, c.url); !strings.Contains(got, c.want) || strings.Contains(got, "s3cret") {
				t.Errorf("%q, want it to contain %q", got, c.want)
			}
		})
	}
}

// TestOpenWarnsAboutReplication: replicas without min-replicas-to-write cause a warning.
func TestOpenWarnsAboutReplication(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	open(t, redistest.StartSentinel(t).WithoutFailover().URL(), func(o *redisstore.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if !strings.Contains(log.String(), "min-replicas-to-write") {
		t.Errorf("the log does not mention it: %s", log.String())
	}
}

// TestOpenRefusesLongTimeouts: timeouts that the score of a lease cannot hold are refused before a connection is made.
func TestOpenRefusesLongTimeouts(t *testing.T) {
	t.Parallel()
	address, err := redisstore.ParseAddress("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	long := timing
	long.Attempt = 2 * time.Hour
	_, err = redisstore.Open(t.Context(), redisstore.Options{Address: address, Timing: long, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "attempt_timeout_ms") {
		t.Errorf("%v, want an error about attempt_timeout_ms", err)
	}
}

// TestOpenWaitsForSlowRedis: a Redis that does not answer in time at first is asked again.
func TestOpenWaitsForSlowRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const timeout = 1500 * time.Millisecond // with the other tries, a busy machine has enough of it
	pause := strconv.FormatInt((timeout * 3 / 2).Milliseconds(), 10)
	if _, err := server.Do("CLIENT", "PAUSE", pause, "WRITE"); err != nil { // scripts only
		t.Fatal(err)
	}
	open(t, server.URL(), func(o *redisstore.Options) { o.Timeout = timeout })
}
