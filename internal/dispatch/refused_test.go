package dispatch_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestRefusedDeliveryIsToldToThePatient: a caller that waits for a node is refused when nothing of its job has left this
// instance, so that it can wait on its own terms and say why. Asked again, it is the same job.
func TestRefusedDeliveryIsToldToThePatient(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("a", 1)
		w.sent.fails("a", dispatch.ErrRefused)
		began := time.Now()
		ask := func() (dispatch.Placement, error) {
			return w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec(), UntilPlaced: true})
		}
		_, err := ask()
		var refused *wire.Error
		if !errors.As(err, &refused) || refused.Code != wire.AllCandidatesFullOrFailed || refused.Reasons[string(core.ReasonDeliveryRefused)] != 1 {
			t.Fatalf("dispatch: %v; want a refusal for DELIVERY_REFUSED", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it was told after %s", took)
		}
		w.wantFree("a")
		w.sent.fails("a", nil)
		p, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if s := spec(); p.Job != s.Job() || p.Attempt != 1 {
			t.Errorf("placed %+v, want attempt 1 of %s", p, s.Job())
		}
		w.wantState(p.Job, core.StateDispatched, "")
	})
}

// TestRefusedDeliveryGoesToAnother before anybody is refused.
func TestRefusedDeliveryGoesToAnother(t *testing.T) {
	t.Parallel()
	play(t, func(w *world) {
		w.node("a", 1)
		w.node("b", 1)
		w.sent.fails("a", dispatch.ErrRefused)
		p, err := w.d.Dispatch(t.Context(), dispatch.Request{Spec: spec(prefers("a")), UntilPlaced: true})
		if err != nil || p.Node != "b" || p.Attempt != 1 {
			t.Errorf("placed %+v, %v; want attempt 1 on b", p, err)
		}
	})
}
