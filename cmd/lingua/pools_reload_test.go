package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/pools"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// readPools reads the pools as an instance sees them.
func (s *testServer) readPools(t *testing.T) wire.PoolOverview {
	t.Helper()
	var o wire.PoolOverview
	got := runCommand(t, "pools", "--json", "--server", s.url)
	for got.code != exitOK && strings.Contains(got.err, string(wire.SchedulerDependencyDown)) {
		got = runCommand(t, "pools", "--json", "--server", s.url) // the machine is too busy for Redis to answer in time
	}
	if err := json.Unmarshal([]byte(got.out), &o); err != nil || got.code != exitOK {
		t.Fatalf("exit %d, %v\n%s%s", got.code, err, got.out, got.err)
	}
	return o
}

// wantPools waits until instances have a generation in force, and checks the number of pools and whether their files differ.
func wantPools(t *testing.T, generation int64, pools int, differs map[*testServer]bool) {
	t.Helper()
	for s, want := range differs {
		var o wire.PoolOverview
		for deadline := time.Now().Add(20 * time.Second); o.Generation != generation && time.Now().Before(deadline); {
			o = s.readPools(t)
		}
		if o.Generation != generation || len(o.Pools) != pools || o.FileDiffers != want {
			t.Errorf("generation %d with %d pools, the file differs: %t; want %d with %d, %t", o.Generation, len(o.Pools), o.FileDiffers, generation, pools, want)
		}
		shown := runCommand(t, "pools", "--server", s.url).out
		if strings.Contains(shown, "the configuration of this instance describes other pools") != want {
			t.Errorf("the file differs: %t, but lingua pools shows\n%s", want, shown)
		}
	}
}

// bucketsFile is a config file with some pools.
func bucketsFile(count string) string {
	return "[scheduler.phase3]\nenabled = true\npool_count = " + count + "\n"
}

// TestServersWithDifferentFiles runs three servers with different files over one Redis: those whose file is not in force say so, a reload of an
// unchanged file does not change the pools of the others, and one of a changed file does.
func TestServersWithDifferentFiles(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	start := func(text string, signals <-chan os.Signal) (*testServer, string) {
		file := writeConfig(t, text)
		return startServerWithSignals(t, signals, "--store", redis.URL(), "--config", file), file
	}
	reload := func(s *testServer, want string, flags ...string) {
		t.Helper()
		got := runCommand(t, append([]string{"config", "reload", "--server", s.url}, flags...)...)
		for got.code != exitOK && strings.Contains(got.err, string(wire.SchedulerDependencyDown)) {
			got = runCommand(t, append([]string{"config", "reload", "--server", s.url}, flags...)...)
		}
		if got.code != exitOK || !strings.Contains(got.out+got.err, want) {
			t.Errorf("exit %d, want %q:\n%s%s", got.code, want, got.out, got.err)
		}
	}
	signals := make(chan os.Signal)
	a, aFile := start(bucketsFile("2"), nil)
	without, withoutFile := start("", signals)
	wantPools(t, 1, 2, map[*testServer]bool{a: false, without: true})
	b, _ := start(bucketsFile("3"), nil) // never in force before
	wantPools(t, 2, 3, map[*testServer]bool{a: true, b: false, without: true})

	const withheld = "other pools are in force than those of this file"
	reload(without, withheld)
	reload(a, withheld)
	signals <- syscall.SIGHUP // of a log rotation
	signals <- syscall.SIGHUP // the one before is handled
	reload(b, "nothing has changed")
	wantPools(t, 2, 3, map[*testServer]bool{a: true, b: false, without: true})

	rewrite(t, withoutFile, bucketsFile("3")) // it is brought up to date
	reload(without, "nothing has changed")
	wantPools(t, 2, 3, map[*testServer]bool{a: true, b: false, without: false})

	rewrite(t, aFile, bucketsFile("4"))
	reload(a, "scheduler.phase3: 4 pools, published to all instances")
	wantPools(t, 3, 4, map[*testServer]bool{a: false, b: true, without: true})
	reload(b, "scheduler.phase3: 3 pools, published to all instances", "--publish-pools")
	wantPools(t, 4, 3, map[*testServer]bool{a: true, b: false, without: false})
	rewrite(t, withoutFile, "")
	reload(without, "scheduler.phase3: 0 pools, published to all instances")
	wantPools(t, 5, 0, map[*testServer]bool{a: true, b: true, without: false})
}

// TestServeWithUnusablePools: an instance that cannot use the pools in force does not start and says what to do.
func TestServeWithUnusablePools(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for body, want := range map[string]string{`{"pools":[{"id":"x"}],"later":1}`: `unknown field "later"`, `{"buckets":-1}`: "-1 is not a number of pools"} {
		digest := pools.Digest([]byte(body))
		if _, err := redis.Do("HSET", "lingua:v1:settings:pools", "generation", "7", "body", body, "digests", digest); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a scheduler that starts does not end by itself
		got := runCommandEnv(ctx, nil, "serve", "--listen", "127.0.0.1:0", "--store", redis.URL())
		cancel()
		if got.code != exitFailed || !strings.Contains(got.err, "the pools of generation 7: "+want) && !strings.Contains(got.err, "the pools of generation 7: json: "+want) ||
			!strings.Contains(got.err, "lingua config reload --publish-pools") {
			t.Errorf("exit %d: %s", got.code, got.err)
		}
	}
}
