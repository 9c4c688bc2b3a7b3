package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestInstancesAndDeadLetters looks at a scheduler among others, and at letters nobody understands.
func TestInstancesAndDeadLetters(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := serve(t, "--store", redis.URL())
	lingua := func(args ...string) ended { return call(t, append(args, "--server", s.url)...) }
	if got := lingua("instances"); got.code != exitOK || !regexp.MustCompile(`(?m)^i-\S+ +i-\S+ +present, asked +0 +0 +0 +0 +0 `).MatchString(got.out) {
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
	for id == "" { // until it was read
		if m := regexp.MustCompile(`(?m)^(\S+/\S+) +unheard of +– +NOT_UNDERSTOOD +1 `).FindStringSubmatch(lingua("dlq", "list").out); m != nil {
			id = m[1]
		}
	}
	if got := lingua("dlq", "show", id); got.code != exitOK || !strings.Contains(got.out, `"kind": "unheard of"`) {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	if got := lingua("dlq", "purge", id); got.code != exitOK || !strings.Contains(got.out, "done") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	for _, args := range [][]string{{"show", id}, {"replay", id}, {"purge", id}} {
		if got := lingua(append([]string{"dlq"}, args...)...); got.code != exitFailed || !strings.Contains(got.out+got.err, "no dead letter") {
			t.Errorf("%v: exit %d\n%s%s", args, got.code, got.out, got.err)
		}
	}
	for _, args := range [][]string{{"replay"}, {"purge"}, {"purge", id, "--all"}} {
		if got := lingua(append([]string{"dlq"}, args...)...); got.code != exitUsage {
			t.Errorf("%v: exit %d\n%s%s", args, got.code, got.out, got.err)
		}
	}
}
