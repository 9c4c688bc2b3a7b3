package server_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/bus"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// dead waits until there are so many dead letters.
func (w *world) dead(count int) []wire.DeadLetter {
	w.t.Helper()
	var list wire.DeadLetterList
	w.eventually("the dead letters are there", func() bool {
		w.get("/v1/dlq").into(&list)
		return len(list.DeadLetters) == count
	})
	return list.DeadLetters
}

// TestDeadLetters are listed, shown, tried again and dropped.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dead(0)
	var instances wire.InstanceList
	w.get("/v1/instances").into(&instances)
	if len(instances.Instances) != 1 || !instances.Instances[0].This || !instances.Instances[0].Present || instances.Instances[0].AdvertiseURL != w.url {
		t.Fatalf("%+v", instances)
	}
	for _, body := range []string{"no JSON", `{"kind":"unheard of","from":"i-9"}`} {
		if _, err := w.s.Store.Post(t.Context(), store.PostParams{To: w.s.Bus.Instance(), Body: []byte(body), MaxMessages: 10}); err != nil {
			t.Fatal(err)
		}
	}
	dead := w.dead(2)
	for i, d := range dead {
		if d.Reason != "NOT_UNDERSTOOD" || d.Incarnation != instances.Instances[0].Incarnation || d.Body != nil || d.Text != "" || d.Bytes == 0 {
			t.Errorf("%d: %+v", i, d)
		}
	}
	var one wire.DeadLetterList
	w.get("/v1/dlq?id=" + dead[0].ID).into(&one)
	if len(one.DeadLetters) != 1 || one.DeadLetters[0].Text != "no JSON" {
		t.Errorf("%+v", one)
	}
	w.get("/v1/dlq?id=" + dead[1].ID).into(&one)
	if string(one.DeadLetters[0].Body) != `{"kind":"unheard of","from":"i-9"}` || one.DeadLetters[0].From != "i-9" {
		t.Errorf("%+v", one)
	}
	w.get("/v1/dlq?id=nobody/1-1").refused(wire.NotFound)
	w.get("/v1/dlq?limit=1").into(&one)
	if len(one.DeadLetters) != 1 || one.Total != 2 {
		t.Errorf("one of two: %+v", one)
	}
	w.get("/v1/instances?nonsense=1").refused(wire.InvalidRequest)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "nonsense=1"} {
		w.get("/v1/dlq?" + query).refused(wire.InvalidRequest)
	}
	for _, door := range []string{"/v1/dlq/replay", "/v1/dlq/purge"} {
		w.post(door, obj{}).refused(wire.InvalidRequest)
		w.post(door, obj{"ids": []string{"x"}, "all": true}).refused(wire.InvalidRequest)
	}

	var out wire.DeadLettersResponse
	none := string(w.s.Bus.Instance()) + "/abc"
	w.post("/v1/dlq/replay", obj{"ids": []string{dead[0].ID, none}}).into(&out)
	if len(out.Done) != 1 || len(out.Failed) != 1 {
		t.Errorf("%+v", out)
	}
	w.post("/v1/dlq/purge", obj{"ids": []string{none}}).into(&out)
	if len(out.Done) != 0 || !strings.Contains(out.Failed[none], "no dead letter") {
		t.Errorf("purge what is none: %+v", out)
	}
	dead = w.dead(2) // it died again
	w.post("/v1/dlq/purge", obj{"ids": []string{dead[0].ID}}).into(&out)
	w.dead(1)
	w.post("/v1/dlq/purge", obj{"all": true}).into(&out)
	w.dead(0)
	w.get("/v1/instances").into(&instances)
	if instances.Instances[0].DeadLetters != 0 || instances.Instances[0].Inbox != 0 {
		t.Errorf("%+v", instances)
	}
}

// TestReplayThatIsNotTaken says why not: the store is not to blame.
func TestReplayThatIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.Scheduler.Phase2.HeartbeatTTLSeconds = 3600 }) // it is not renewed meanwhile
	w.dead(0)                                                                                  // it runs
	self := w.s.Bus.Instance()
	if _, err := w.s.Store.Post(t.Context(), store.PostParams{To: self, Body: []byte("no JSON"), MaxMessages: 10}); err != nil {
		t.Fatal(err)
	}
	letter := w.dead(1)[0].ID
	if err := w.s.Store.Withdraw(t.Context(), self); err != nil {
		t.Fatal(err)
	}
	var out wire.DeadLettersResponse
	w.post("/v1/dlq/replay", obj{"ids": []string{letter}}).into(&out)
	if len(out.Done) != 0 || !strings.Contains(out.Failed[letter], "does not count as present") {
		t.Errorf("%+v", out)
	}
	w.dead(1)
	if got := w.s.Server.DeadLetterDetail(bus.ErrFull); !strings.Contains(got, "is full") {
		t.Errorf("a full inbox: %q", got)
	}
}
