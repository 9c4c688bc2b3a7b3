package clustertest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/test/redistest"
)

func TestMonitorScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	scripts := make(chan Script, 10)
	MonitorScripts(t, server, func(s Script) { scripts <- s }, func(err error) { t.Error(err) })
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
	for _, want := range []Script{
		{Keys: []string{"k", "l"}, Args: []string{"7", odd}, Writes: [][]string{{"SET", "k", odd}, {"DEL", "l"}}},
		{Keys: []string{}, Args: []string{}},
	} {
		got := <-scripts
		if got.AtMS < before-1000 || got.AtMS > before+60_000 {
			t.Errorf("a script at %d, want about %d", got.AtMS, before)
		}
		got.AtMS = 0
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Script{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestAuditorFindsWritesThatShouldFail(t *testing.T) {
	t.Parallel()
	const now = 1_800_000_000_000
	state, out, waiting, meta, leases := "{session:/s}:state", "{session:/s}:one:out", "{session:/s}:one:out:waiting", "{node:n}:meta", "{node:n}:leases"
	limit := func(in int) string { return strconv.Itoa(now + in) }
	saveAs := func(incarnation, epoch, owner string, written bool) Script {
		s := Script{AtMS: now, Keys: []string{state, out, waiting}, Args: []string{limit(100), epoch, incarnation, owner, "0", "body"}}
		if written {
			s.Writes = [][]string{{"SET", state, epoch + " " + incarnation + " " + owner + "\nbody", "PX", "1"}}
		}
		return s
	}
	save := func(epoch, owner string, written bool) Script { return saveAs("one", epoch, owner, written) }
	message := func(epoch, owner string, written bool) Script {
		s := Script{AtMS: now, Keys: []string{out, waiting, state}, Args: []string{limit(100), "one", "0", "body", "1", "1024", epoch, owner}}
		if written {
			s.Writes = [][]string{{"HSETNX", waiting, "0", "body"}}
		}
		return s
	}
	register := func(epoch string) Script {
		return Script{AtMS: now, Keys: []string{meta, leases}, Args: []string{limit(100), "1", "2", "3", "{}"}, Writes: [][]string{{"HSET", meta, "seen", "1", "epoch", epoch}}}
	}
	const first, second = "1800000000000001", "1800000000000002"
	reserve := func(epoch string, written bool) Script {
		s := Script{AtMS: now, Keys: []string{meta, leases}, Args: []string{limit(100), "job|1|t", epoch + ".1", "1000"}}
		if written {
			s.Writes = [][]string{{"ZADD", leases, "1", "job|1|t"}}
		}
		return s
	}
	heartbeat := func(epoch string, written bool) Script {
		s := Script{AtMS: now, Keys: []string{meta, leases}, Args: []string{limit(100), "1", "2", "3", epoch, "1"}}
		if written {
			s.Writes = [][]string{{"HSET", meta, "seen", "2"}}
		}
		return s
	}
	late := func(s Script) Script {
		s.AtMS += 200
		return s
	}
	for name, c := range map[string]struct {
		scripts          []Script
		late, superseded int
		want             string
	}{
		"no violation":                       {scripts: []Script{save("1", "a", true), message("1", "a", true), save("2", "b", true), message("0", "", true)}},
		"late, and without effect":           {scripts: []Script{late(save("1", "a", false))}, late: 1},
		"late":                               {scripts: []Script{late(save("1", "a", true))}, late: 1, want: LateWrite},
		"without a limit":                    {scripts: []Script{{AtMS: now, Keys: []string{"k"}, Args: []string{"0"}, Writes: [][]string{{"DEL", "k"}}}}},
		"an old owner that was refused":      {scripts: []Script{save("2", "b", true), save("1", "a", false)}, superseded: 1},
		"an old owner":                       {scripts: []Script{save("2", "b", true), save("1", "a", true)}, superseded: 1, want: SupersededWrite},
		"two owners of one epoch":            {scripts: []Script{save("2", "b", true), save("2", "a", true)}, superseded: 1, want: SupersededWrite},
		"a message that was refused":         {scripts: []Script{save("2", "b", true), message("1", "a", false)}, superseded: 1},
		"a message of an old owner":          {scripts: []Script{save("2", "b", true), message("1", "a", true)}, superseded: 1, want: SupersededWrite},
		"another incarnation":                {scripts: []Script{save("3", "b", true), saveAs("two", "1", "a", true), save("3", "b", false)}, superseded: 1},
		"an earlier incarnation":             {scripts: []Script{save("3", "b", true), saveAs("two", "1", "a", true), save("3", "b", true)}, superseded: 1, want: SupersededWrite},
		"a reservation":                      {scripts: []Script{register(first), reserve(first, true), register(second), reserve(second, true)}},
		"a reservation that was refused":     {scripts: []Script{register(first), register(second), reserve(first, false)}, superseded: 1},
		"a reservation for an earlier epoch": {scripts: []Script{register(first), register(second), reserve(first, true)}, superseded: 1, want: SupersededWrite},
		"a heartbeat":                        {scripts: []Script{register(first), heartbeat(first, true), heartbeat("0", true)}},
		"a heartbeat of an earlier epoch":    {scripts: []Script{register(first), register(second), heartbeat(first, true)}, superseded: 1, want: SupersededWrite},
	} {
		a := newScriptAuditor()
		for _, s := range c.scripts {
			a.check(s)
		}
		violations, summary, _ := a.Report()
		var kinds []string
		for _, e := range violations {
			kinds = append(kinds, e.Kind)
		}
		if got := strings.Join(kinds, ", "); got != c.want || a.late != c.late || a.superseded != c.superseded {
			t.Errorf("%s: violations %q, %d late, %d superseded (%s)", name, got, a.late, a.superseded, summary)
		}
		if want := fmt.Sprintf("%d scripts", len(c.scripts)); !strings.HasPrefix(summary, want) {
			t.Errorf("%s: %s", name, summary)
		}
	}
}
