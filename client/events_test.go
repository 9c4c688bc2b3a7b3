package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestEventQueueKeepsOrderAndEnd(t *testing.T) {
	t.Parallel()
	q := newEventQueue()
	for _, code := range []string{"a", "b"} {
		if !q.put(t.Context(), Warning{Code: code}, 1) {
			t.Fatal("an event was refused")
		}
	}
	end := errors.New("end")
	q.end(end)
	for _, want := range []string{"a", "b"} {
		if e, err := q.take(); err != nil || e.(Warning).Code != want {
			t.Errorf("took %+v, %v; want %s", e, err, want)
		}
	}
	for range 2 {
		if e, err := q.take(); e != nil || !errors.Is(err, end) {
			t.Errorf("after the last event: %v, %v", e, err)
		}
	}
}

func TestEventQueueIsLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newEventQueue()
		q.put(t.Context(), Warning{}, maxEventBytes)
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan bool)
		go func() { refused <- !q.put(ctx, Warning{}, 0) }()
		synctest.Wait()
		if cancel(); !<-refused {
			t.Error("an event was put beyond the limit")
		}
		put := make(chan bool)
		go func() { put <- q.put(t.Context(), Warning{Code: "late"}, 0) }()
		synctest.Wait()
		if _, err := q.take(); err != nil {
			t.Fatal(err)
		}
		if e, err := q.take(); !<-put || err != nil || e.(Warning).Code != "late" {
			t.Errorf("took %+v, %v after there was space", e, err)
		}
	})
}
