package convert

import (
	"errors"
	"net/url"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Node is a node as the API shows it. One that was silent for longer than presence is offline; setAside is for how long this
// instance does not choose it.
func Node(st store.NodeStatus, presence, setAside time.Duration) wire.Node {
	n, c := st.Node, &st.Node.Capability
	return wire.Node{
		NodeID: string(n.ID), Epoch: int64(n.Epoch), Online: st.Age < presence && n.Health != core.HealthOffline,
		Health: n.EffectiveHealth().String(), Drained: n.Drained, Disconnected: n.Disconnected,
		SilentSinceMS: n.SilentSince, Held: st.Held, SetAsideMS: setAside.Milliseconds(),
		MaxConcurrentJobs: n.MaxJobs, Reserved: st.Reserved, Running: st.Running, Foreign: st.Foreign,
		EffectiveLoad: st.InFlight(), CurrentLoad: viewLoad(st.Load), Admission: Admission(n, st.At),
		LastHeartbeatMS: time.Now().Add(-st.Age).UnixMilli(),
		NodeCapabilities: wire.NodeCapabilities{
			ASRLangs: toStrings(c.ASR), SemanticLangs: toStrings(c.Semantic), NMTPairs: viewPairs(c.Pairs), TTSLangs: toStrings(c.TTS),
			CapabilityByType: viewTypes(c.Types), InstalledModels: c.Models, InstalledServices: viewServices(c.Services),
			Features: c.Features,
		},
		Region: n.Region, Zone: n.Zone, TenantID: string(n.Tenant), CallbackURL: withoutQuery(n.Callback), Incarnation: string(n.Owner),
	}
}

func toStrings[T ~string](list []T) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func viewPairs(pairs []core.Direction) [][]string {
	var out [][]string
	for _, d := range pairs {
		out = append(out, []string{string(d.Src), string(d.Tgt)})
	}
	return out
}

func viewServices(list []core.Service) []wire.Service {
	var out []wire.Service
	for _, sv := range list {
		out = append(out, wire.Service{ServiceID: sv.ID, Version: sv.Version, Type: sv.Type, Status: sv.Status.String()})
	}
	return out
}

func viewTypes(t core.ServiceTypes) *wire.CapabilityByType {
	if t == (core.ServiceTypes{}) {
		return nil
	}
	tri := func(v core.Tri) *bool {
		if v == core.Unknown {
			return nil
		}
		b := v == core.Yes
		return &b
	}
	return &wire.CapabilityByType{ASR: tri(t.ASR), NMT: tri(t.NMT), TTS: tri(t.TTS), Tone: tri(t.Tone), Semantic: tri(t.Semantic)}
}

func viewLoad(l core.Load) *wire.Load {
	if l == core.UnknownLoad {
		return nil
	}
	part := func(v float64) *float64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	return &wire.Load{CPU: part(l.CPU), GPU: part(l.GPU), Memory: part(l.Memory)}
}

// withoutQuery is a URL without its query, which may contain a secret.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// Job is a job as the API shows it.
func Job(j *core.Job) wire.Job {
	out := wire.Job{
		JobID: string(j.ID), RequestID: string(j.Request), SessionID: string(j.Session), TenantID: string(j.Tenant),
		SrcLang: string(j.Direction.Src), TgtLang: string(j.Direction.Tgt),
		State: j.State.String(), NodeID: string(j.Node), PoolID: string(j.Pool.ID), PoolBound: j.Pool.Bound, AttemptID: j.Attempt,
		Reason: string(j.Reason), Detail: j.Detail, Result: j.Result, Probe: j.TestJob,
		CreatedMS: millis(j.Created), UpdatedMS: millis(j.Updated), DeadlineMS: millis(j.Deadline),
		Attempts: make([]wire.Attempt, len(j.History)),
	}
	for i, a := range j.History {
		out.Attempts[i] = wire.Attempt{
			AttemptID: a.Attempt, NodeID: string(a.Node), StartedMS: millis(a.Started), EndedMS: millis(a.Ended), Reason: string(a.Reason),
		}
	}
	return out
}

// ActiveJobs is a list of attempts as the API shows it.
func ActiveJobs(jobs []store.ActiveJob) []wire.ActiveJob {
	out := make([]wire.ActiveJob, 0, len(jobs))
	for _, j := range jobs {
		out = append(out, wire.ActiveJob{JobID: string(j.Job), AttemptID: j.Attempt})
	}
	return out
}

// Error is the error of a request: the error itself if it is one of the API's, INTERNAL for any other, which has been logged.
func Error(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return wire.Errorf(wire.Internal, "something went wrong here, not with your message; it was logged")
}

// millis is a time in Unix milliseconds; 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
