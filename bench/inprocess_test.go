package bench

import (
	"testing"

	"github.com/google/uuid"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
)

// BenchmarkLifecycle is a whole job without HTTP: dispatch, delivery to a node in the same process, ACK and result.
func BenchmarkLifecycle(b *testing.B) {
	s, _ := inprocess.Start(b, 50, 4, true)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := s.Jobs.Dispatch(b.Context(), dispatch.Request{Unique: true, Spec: core.Spec{
				Request: core.RequestID(uuid.NewString()), Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
			}})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
