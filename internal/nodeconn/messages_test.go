package nodeconn

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestErrorNamesTheJob: an outcome that could not be stored is answered with an error that names its job, because a node may have sent
// several. The shared error itself is not changed.
func TestErrorNamesTheJob(t *testing.T) {
	t.Parallel()
	shared := store.Unavailable()
	for _, id := range []string{"job-1", "job-2"} {
		e := (&Server{}).acknowledge(&conn{}, wire.ActiveJob{JobID: id, AttemptID: 1}, shared)
		if e == nil || e.Code != wire.SchedulerDependencyDown || e.JobID != id {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if shared.JobID != "" {
		t.Errorf("the shared error names %s", shared.JobID)
	}
}
