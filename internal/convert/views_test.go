package convert_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestNodeView(t *testing.T) {
	t.Parallel()
	st := store.NodeStatus{
		Node: &core.Node{
			ID: "n", Epoch: 2, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Tenant: "acme", Owner: "i-a", Callback: "http://node/jobs?key=secret",
				Capability: core.Capability{
					Semantic: core.LangSet{"en"}, Pairs: []core.Direction{{Src: "en", Tgt: "zh"}}, Types: core.ServiceTypes{ASR: core.Yes, TTS: core.No},
					Services: []core.Service{{ID: "s", Status: core.ServiceReady}},
				}},
		},
		Load: core.UnknownLoad, Age: time.Second, Occupancy: store.Occupancy{Reserved: 1, Running: 1, Foreign: 1},
	}
	yes, no := true, false
	want := wire.Node{
		NodeID: "n", Epoch: 2, Online: true, Health: "ready", MaxConcurrentJobs: 4, Reserved: 1, Running: 1, Foreign: 1, EffectiveLoad: 3, SetAsideMS: 500,
		NodeCapabilities: wire.NodeCapabilities{
			SemanticLangs: []string{"en"}, NMTPairs: [][]string{{"en", "zh"}}, CapabilityByType: &wire.CapabilityByType{ASR: &yes, TTS: &no},
			InstalledServices: []wire.Service{{ServiceID: "s", Status: "ready"}},
		},
		TenantID: "acme", CallbackURL: "http://node/jobs", Incarnation: "i-a",
	}
	got := convert.Node(st, 15*time.Second, 500*time.Millisecond)
	if since := time.Now().UnixMilli() - got.LastHeartbeatMS; since < 1000 || since > 60_000 {
		t.Errorf("the last heartbeat was %d ms ago, want about 1000", since)
	}
	got.LastHeartbeatMS = 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Admission != nil {
		t.Errorf("all slots are admitted, shown as %+v", got.Admission)
	}
	load := 0.5
	st.Load.CPU = load
	if got := convert.Node(st, 15*time.Second, 0).CurrentLoad; !cmp.Equal(got, &wire.Load{CPU: &load}) {
		t.Errorf("the load is %+v", got)
	}
	if convert.Node(st, time.Second, 0).Online {
		t.Error("a silent node is online")
	}
	st.Node.Health = core.HealthOffline
	if convert.Node(st, 15*time.Second, 0).Online {
		t.Error("an offline node is online")
	}
}

func TestJobView(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_000)
	job := &core.Job{
		ID: "j", Spec: core.Spec{Request: "r", Session: "s", Tenant: "acme", Direction: core.Direction{Src: "en", Tgt: "zh"}},
		Holder: core.Holder{Node: "n", Attempt: 2}, Reason: core.ReasonNodeFailed, Detail: "OUT_OF_MEMORY", Result: []byte("{}"), Created: at,
		History: []core.Attempt{{Holder: core.Holder{Node: "n", Attempt: 1}, Started: at, Ended: at.Add(time.Second), Reason: core.ReasonNodeFailed}},
	}
	want := wire.Job{
		JobID: "j", RequestID: "r", SessionID: "s", TenantID: "acme", SrcLang: "en", TgtLang: "zh", State: job.State.String(), NodeID: "n", AttemptID: 2,
		Reason: "NODE_FAILED", Detail: "OUT_OF_MEMORY", Result: json.RawMessage("{}"), CreatedMS: 1_700_000_000_000,
		Attempts: []wire.Attempt{{AttemptID: 1, NodeID: "n", StartedMS: 1_700_000_000_000, EndedMS: 1_700_000_001_000, Reason: "NODE_FAILED"}},
	}
	if diff := cmp.Diff(want, convert.Job(job)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := convert.Job(new(core.Job)); got.Attempts == nil || got.CreatedMS != 0 {
		t.Errorf("lists must not be null, and an absent time is 0: %+v", got)
	}
}

// TestActiveJobsAreAList: an empty list is encoded as [], not as null.
func TestActiveJobsAreAList(t *testing.T) {
	t.Parallel()
	for want, jobs := range map[string][]store.ActiveJob{
		`[]`: nil, `[{"job_id":"j","attempt_id":2}]`: {{Job: "j", Attempt: 2}},
	} {
		if got, err := json.Marshal(convert.ActiveJobs(jobs)); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// TestErrorOfRequest: errors of the API are passed on, and the text of any other is not.
func TestErrorOfRequest(t *testing.T) {
	t.Parallel()
	e := wire.Invalid("f", "is wrong")
	if got := convert.Error(fmt.Errorf("wrapped: %w", e)); got != e {
		t.Errorf("%+v", got)
	}
	got := convert.Error(errors.New("dial tcp 10.0.0.1:6379"))
	if got.Code != wire.Internal || got.Detail == "" || cmp.Equal(got.Detail, "dial tcp 10.0.0.1:6379") {
		t.Errorf("%+v", got)
	}
}
