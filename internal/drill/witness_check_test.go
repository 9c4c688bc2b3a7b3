package drill

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/redistest"
)

// TestTheTranscript: what a real server tells of scripts is what they were given, and what they did.
func TestTheTranscript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	heard := make(chan script, 10)
	monitor(t, server, func(s script) { heard <- s }, func(err error) { t.Error(err) })
	do := func(args ...string) {
		t.Helper()
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().UnixMilli()
	const odd = "a \"b\"\n\\ \x00\xff é]"
	do("SET", "x", "by hand")
	do("EVAL", "redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[2]) redis.call('DEL', KEYS[2])", "2", "k", "l", "7", odd)
	do("EVAL", "return redis.call('TIME')", "0")
	do("PING")
	for _, want := range []script{
		{keys: []string{"k", "l"}, args: []string{"7", odd}, writes: [][]string{{"SET", "k", odd}, {"DEL", "l"}}},
		{keys: []string{}, args: []string{}},
	} {
		got := <-heard
		if got.at < before-1000 || got.at > before+60_000 {
			t.Errorf("it was at %d, want about %d", got.at, before)
		}
		got.at = 0
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(script{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestTheWitnessFinds what takes effect and must not, and nothing else.
func TestTheWitnessFinds(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000
	state, out, waiting, meta, leases := "{session:/s}:state", "{session:/s}:one:out", "{session:/s}:one:out:waiting", "{node:n}:meta", "{node:n}:leases"
	limit := func(in int) string { return strconv.Itoa(now + in) }
	saveAs := func(incarnation, epoch, owner string, written bool) script {
		s := script{at: now, keys: []string{state, out, waiting}, args: []string{limit(100), epoch, incarnation, owner, "0", "body"}}
		if written {
			s.writes = [][]string{{"SET", state, epoch + " " + incarnation + " " + owner + "\nbody", "PX", "1"}}
		}
		return s
	}
	save := func(epoch, owner string, written bool) script { return saveAs("one", epoch, owner, written) }
	message := func(epoch, owner string, written bool) script {
		s := script{at: now, keys: []string{out, waiting, state}, args: []string{limit(100), "one", "0", "body", "1", "1024", epoch, owner}}
		if written {
			s.writes = [][]string{{"HSETNX", waiting, "0", "body"}}
		}
		return s
	}
	register := func(epoch string) script {
		return script{at: now, keys: []string{meta, leases}, args: []string{limit(100), "1", "2", "3", "{}"}, writes: [][]string{{"HSET", meta, "seen", "1", "epoch", epoch}}}
	}
	const first, second = "1800000000000001", "1800000000000002"
	reserve := func(epoch string, written bool) script {
		s := script{at: now, keys: []string{meta, leases}, args: []string{limit(100), "job|1|t", epoch + ".1", "1000"}}
		if written {
			s.writes = [][]string{{"ZADD", leases, "1", "job|1|t"}}
		}
		return s
	}
	heartbeat := func(epoch string, written bool) script {
		s := script{at: now, keys: []string{meta, leases}, args: []string{limit(100), "1", "2", "3", epoch, "1"}}
		if written {
			s.writes = [][]string{{"HSET", meta, "seen", "2"}}
		}
		return s
	}
	late := func(s script) script {
		s.at += 200
		return s
	}
	for name, c := range map[string]struct {
		heard         []script
		late, usurped int
		want          string
	}{
		"nothing":                        {heard: []script{save("1", "a", true), message("1", "a", true), save("2", "b", true), message("0", "", true)}},
		"late, and without effect":       {heard: []script{late(save("1", "a", false))}, late: 1},
		"late":                           {heard: []script{late(save("1", "a", true))}, late: 1, want: overdue},
		"without a limit":                {heard: []script{{at: now, keys: []string{"k"}, args: []string{"0"}, writes: [][]string{{"DEL", "k"}}}}},
		"an old owner that was refused":  {heard: []script{save("2", "b", true), save("1", "a", false)}, usurped: 1},
		"an old owner":                   {heard: []script{save("2", "b", true), save("1", "a", true)}, usurped: 1, want: superseded},
		"two owners of one epoch":        {heard: []script{save("2", "b", true), save("2", "a", true)}, usurped: 1, want: superseded},
		"a message that was refused":     {heard: []script{save("2", "b", true), message("1", "a", false)}, usurped: 1},
		"a message of an old owner":      {heard: []script{save("2", "b", true), message("1", "a", true)}, usurped: 1, want: superseded},
		"another incarnation":            {heard: []script{save("3", "b", true), saveAs("two", "1", "a", true), save("3", "b", false)}, usurped: 1},
		"an earlier incarnation":         {heard: []script{save("3", "b", true), saveAs("two", "1", "a", true), save("3", "b", true)}, usurped: 1, want: superseded},
		"a grant":                        {heard: []script{register(first), reserve(first, true), register(second), reserve(second, true)}},
		"a grant that was refused":       {heard: []script{register(first), register(second), reserve(first, false)}, usurped: 1},
		"a grant on an earlier life":     {heard: []script{register(first), register(second), reserve(first, true)}, usurped: 1, want: superseded},
		"a heartbeat":                    {heard: []script{register(first), heartbeat(first, true), heartbeat("0", true)}},
		"a heartbeat of an earlier life": {heard: []script{register(first), register(second), heartbeat(first, true)}, usurped: 1, want: superseded},
	} {
		w := newWitness()
		for _, s := range c.heard {
			w.hear(s)
		}
		effects, summary, _ := w.report()
		var kinds []string
		for _, e := range effects {
			kinds = append(kinds, e.kind)
		}
		if got := strings.Join(kinds, ", "); got != c.want || w.late != c.late || w.usurped != c.usurped {
			t.Errorf("%s: %q, %d late, %d usurped (%s)", name, got, w.late, w.usurped, summary)
		}
		if want := fmt.Sprintf("%d scripts", len(c.heard)); !strings.HasPrefix(summary, want) {
			t.Errorf("%s: %s", name, summary)
		}
	}
}
