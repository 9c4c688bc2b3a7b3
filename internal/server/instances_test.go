package server_test

import (
	"testing"

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
		if _, err := w.s.Store.Post(t.Context(), store.PostParams{To: w.s.Bus.Instance(), Body: []byte(body), Most: 10}); err != nil {
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
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "nonsense=1"} {
		w.get("/v1/dlq?" + query).refused(wire.InvalidRequest)
	}
	for _, door := range []string{"/v1/dlq/replay", "/v1/dlq/purge"} {
		w.post(door, obj{}).refused(wire.InvalidRequest)
		w.post(door, obj{"ids": []string{"x"}, "all": true}).refused(wire.InvalidRequest)
	}

	var out wire.DeadLettersResponse
	w.post("/v1/dlq/replay", obj{"ids": []string{dead[0].ID, "nobody/1-1"}}).into(&out)
	if len(out.Done) != 1 || len(out.Failed) != 1 {
		t.Errorf("%+v", out)
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
