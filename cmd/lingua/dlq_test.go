package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestDeadLettersArePrintable checks that bodies are escaped for a terminal, that a truncated list is marked as such, and
// that a replay reports what it did.
func TestDeadLettersArePrintable(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := startServer(t, "--store", redis.URL())
	lingua := func(args ...string) result { return runCommand(t, append(args, "--server", s.url)...) }
	var instances wire.InstanceList
	if err := json.Unmarshal([]byte(lingua("instances", "--json").out), &instances); err != nil {
		t.Fatal(err)
	}
	inbox := "lingua:streams:{instance:" + instances.Instances[0].Incarnation + "}:inbox"
	for _, body := range []string{
		`{"kind":"un\u001b[2Jheard","from":"\u202ex\ty","body":"` + "\u009b31m" + `"}`,
		"no JSON \x1b]0;mine\a\tat\nall\xff",
		"third",
	} {
		if _, err := redis.Do("XADD", inbox, "*", "another", body); err != nil {
			t.Fatal(err)
		}
	}
	var list wire.DeadLetterList
	for len(list.DeadLetters) < 3 { // until the instance has read them
		if err := json.Unmarshal([]byte(lingua("dlq", "list", "--json").out), &list); err != nil {
			t.Fatal(err)
		}
	}
	got := lingua("dlq", "list", "--limit", "2").out
	for _, want := range []string{`un\x1b[2Jheard `, `\u202ex\ty `, "\nand 1 more; --limit shows up to 1000\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the list does not contain %q:\n%q", want, got)
		}
	}
	if all := lingua("dlq", "list").out; strings.Contains(all, "more;") {
		t.Errorf("the list is complete:\n%s", all)
	}
	for i, want := range []string{`"body": "\u009b31m"`, "no JSON \\x1b]0;mine\\a\\tat\nall\ufffd\n", "third"} {
		shown := lingua("dlq", "show", list.DeadLetters[i].ID)
		for shown.code != exitOK && strings.Contains(shown.err, string(wire.SchedulerDependencyDown)) {
			shown = lingua("dlq", "show", list.DeadLetters[i].ID) // the machine is too busy for Redis to answer in time
		}
		got := shown.out
		if !strings.Contains(got, want) || !regexp.MustCompile(`(?m)^reason +NOT_UNDERSTOOD\ndeliveries +1$`).MatchString(got) {
			t.Errorf("no %q:\n%q\n%s", want, got, shown.err)
		}
	}
	if got := lingua("dlq", "replay", list.DeadLetters[2].ID); !strings.Contains(got.out, "put into the inbox of the queried instance") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
}

// TestInstancesAndDeadLetters lists an instance, and lists, shows and purges a dead letter of an unknown kind.
func TestInstancesAndDeadLetters(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := startServer(t, "--store", redis.URL())
	lingua := func(args ...string) result { return runCommand(t, append(args, "--server", s.url)...) }
	if got := lingua("instances"); got.code != exitOK || !regexp.MustCompile(`(?m)^i-\S+ +i-\S+ +present, queried +0 +0 +0 +0 +0 `).MatchString(got.out) {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	var list wire.InstanceList
	if err := json.Unmarshal([]byte(lingua("instances", "--json").out), &list); err != nil {
		t.Fatal(err)
	}
	inbox := "lingua:streams:{instance:" + list.Instances[0].Incarnation + "}:inbox"
	if _, err := redis.Do("XADD", inbox, "*", "b", `{"kind":"unheard of"}`); err != nil {
		t.Fatal(err)
	}
	var id string
	for id == "" { // until the instance has read it
		if m := regexp.MustCompile(`(?m)^(\S+/\S+) +unheard of +– +NOT_UNDERSTOOD +1 `).FindStringSubmatch(lingua("dlq", "list").out); m != nil {
			id = m[1]
		}
	}
	if got := lingua("dlq", "show", id); got.code != exitOK || !strings.Contains(got.out, `"kind": "unheard of"`) {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := lingua("dlq", "purge", id); got.code != exitOK || !strings.Contains(got.out, "deleted") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for _, args := range [][]string{{"show", id}, {"replay", id}, {"purge", id}} {
		if got := lingua(append([]string{"dlq"}, args...)...); got.code != exitFailed || !strings.Contains(got.out+got.err, "no dead letter") {
			t.Errorf("%v: exit %d\n%s%s", args, got.code, got.out, got.err)
		}
	}
	for _, args := range [][]string{{"replay"}, {"purge"}, {"purge", id, "--all"}} {
		got := lingua(append([]string{"dlq"}, args...)...)
		if got.code != exitUsage || strings.Contains(got.err, "not both") != (len(args) > 1) {
			t.Errorf("%v: exit %d\n%s%s", args, got.code, got.out, got.err)
		}
	}
}
