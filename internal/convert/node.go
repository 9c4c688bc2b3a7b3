package convert

import (
	"fmt"
	"math"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Declaration converts the declaration of a node.
func (r *Reader) Declaration(d *wire.Declaration) (core.Change, *wire.Error) {
	var c core.Change
	if d.Health != "" {
		h, err := core.ParseHealth(d.Health)
		if err != nil {
			return c, wire.Invalid("health", "%s", err)
		}
		c.Health = h
	}
	if d.SemanticLangs != nil && len(d.SemanticLangs) == 0 {
		return c, wire.Invalid("semantic_langs", "must not be empty: without semantic repair a node can do no job")
	}
	if n := d.MaxConcurrentJobs; n != nil && (*n < 0 || *n > core.MaxConcurrentJobs) {
		return c, wire.Invalid("max_concurrent_jobs", "must be between 0 and %d, not %d", core.MaxConcurrentJobs, *n)
	}
	c.MaxJobs, c.Has.MaxJobs = given(d.MaxConcurrentJobs)

	var e *wire.Error
	if c.ASR, e = r.langSet("asr_langs", d.ASRLangs); e != nil {
		return c, e
	}
	if c.Semantic, e = r.langSet("semantic_langs", d.SemanticLangs); e != nil {
		return c, e
	}
	if c.TTS, e = r.langSet("tts_langs", d.TTSLangs); e != nil {
		return c, e
	}
	if c.Pairs, e = r.pairs(d.NMTPairs); e != nil {
		return c, e
	}
	if e := checkNames("installed_models", d.InstalledModels); e != nil {
		return c, e
	}
	for i, model := range d.InstalledModels {
		if err := core.CheckModelName(model); err != nil {
			return c, wire.Invalid(fmt.Sprintf("installed_models[%d]", i), "%v", err)
		}
	}
	if e := checkNames("features", d.Features); e != nil {
		return c, e
	}
	c.Models, c.Features = d.InstalledModels, d.Features
	if c.Services, e = readServices(d.InstalledServices); e != nil {
		return c, e
	}
	if c.States, e = readStates(d.CapabilityState); e != nil {
		return c, e
	}
	if c.Load, e = readLoad(d.CurrentLoad); e != nil {
		return c, e
	}
	c.Region, c.Has.Region = given(d.Region)
	if e := CheckOptionalID("region", c.Region); e != nil {
		return c, e
	}
	c.Zone, c.Has.Zone = given(d.Zone)
	if e := checkText("zone", c.Zone); e != nil {
		return c, e
	}
	c.Tenant, c.Has.Tenant = given((*core.TenantID)(d.TenantID))
	if e := CheckOptionalID("tenant_id", string(c.Tenant)); e != nil {
		return c, e
	}
	c.Callback, c.Has.Callback = given(d.CallbackURL)
	if len(c.Callback) > maxURL {
		return c, wire.Invalid("callback_url", "must be at most %d characters", maxURL)
	}
	if c.Callback != "" {
		if err := r.checkCallback(c.Callback); err != nil {
			return c, wire.Invalid("callback_url", "%s", err)
		}
	}
	types, has := given(d.CapabilityByType)
	c.Types, c.Has.Types = core.ServiceTypes{
		ASR: tri(types.ASR), NMT: tri(types.NMT), TTS: tri(types.TTS), Tone: tri(types.Tone), Semantic: tri(types.Semantic),
	}, has
	return c, nil
}

// given returns a value that may be absent, and whether it is there.
func given[T any](value *T) (v T, ok bool) {
	if value != nil {
		v = *value
	}
	return v, value != nil
}

func tri(b *bool) core.Tri {
	if b == nil {
		return core.Unknown
	}
	return core.TriOf(*b)
}

func readServices(list []wire.Service) ([]core.Service, *wire.Error) {
	if list == nil {
		return nil, nil
	}
	if len(list) > maxList {
		return nil, wire.Invalid("installed_services", "has %d entries; the maximum is %d", len(list), maxList)
	}
	out := make([]core.Service, len(list))
	for i, sv := range list {
		field := fmt.Sprintf("installed_services[%d]", i)
		if sv.ServiceID == "" || len(sv.ServiceID) > maxName {
			return nil, wire.Invalid(field+".service_id", "must be 1 to %d characters", maxName)
		}
		if err := core.CheckServiceName(sv.ServiceID); err != nil {
			return nil, wire.Invalid(field+".service_id", "%v", err)
		}
		if e := checkText(field+".version", sv.Version); e != nil {
			return nil, e
		}
		if e := checkText(field+".type", sv.Type); e != nil {
			return nil, e
		}
		status, err := core.ParseServiceStatus(sv.Status)
		if err != nil {
			return nil, wire.Invalid(field+".status", "%s", err)
		}
		out[i] = core.Service{ID: sv.ServiceID, Version: sv.Version, Type: sv.Type, Status: status}
	}
	return out, nil
}

// readStates converts the status of services.
func readStates(given map[string]string) (map[string]core.ServiceStatus, *wire.Error) {
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > maxList {
		return nil, wire.Invalid("capability_state", "has %d entries; the maximum is %d", len(given), maxList)
	}
	out := make(map[string]core.ServiceStatus, len(given))
	for id, name := range given {
		if id == "" || len(id) > maxName {
			return nil, wire.Invalid("capability_state", "names a service by %d characters; 1 to %d are allowed", len(id), maxName)
		}
		if e := checkText("capability_state", id); e != nil {
			return nil, e
		}
		status, err := core.ParseServiceStatus(name)
		if err != nil {
			return nil, wire.Invalid("capability_state", "of %.64q: %s", id, err)
		}
		out[id] = status
	}
	return out, nil
}

func readLoad(l *wire.Load) (*core.Load, *wire.Error) {
	if l == nil {
		return nil, nil
	}
	out := core.UnknownLoad
	for _, part := range []struct {
		name string
		from *float64
		to   *float64
	}{{"cpu", l.CPU, &out.CPU}, {"gpu", l.GPU, &out.GPU}, {"memory", l.Memory, &out.Memory}} {
		if part.from == nil {
			continue
		}
		if *part.from < 0 || *part.from > 1 || math.IsNaN(*part.from) {
			return nil, wire.Invalid("current_load."+part.name, "must be between 0 and 1, not %v", *part.from)
		}
		*part.to = *part.from
	}
	return &out, nil
}

// Registration converts a declaration that must be complete, and the list of jobs that the node reports.
func (r *Reader) Registration(d *wire.Declaration) (core.Change, store.Activity, *wire.Error) {
	if d.SemanticLangs == nil {
		return core.Change{}, store.Activity{}, wire.Invalid("semantic_langs", "is missing: list the languages the node can repair")
	}
	if d.MaxConcurrentJobs == nil {
		return core.Change{}, store.Activity{},
			wire.Invalid("max_concurrent_jobs", "is missing: give the number of jobs that the node takes at once")
	}
	c, e := r.Declaration(d)
	if e != nil {
		return core.Change{}, store.Activity{}, e
	}
	a, e := Activity(d)
	return c, a, e
}

// Activity converts the list and the number of jobs that a node reports.
func Activity(d *wire.Declaration) (store.Activity, *wire.Error) {
	var a store.Activity
	if d.CurrentJobs != nil {
		if *d.CurrentJobs < 0 || *d.CurrentJobs > 10*core.MaxConcurrentJobs {
			return a, wire.Invalid("current_jobs", "must be between 0 and %d, not %d", 10*core.MaxConcurrentJobs, *d.CurrentJobs)
		}
		a.Counts, a.Current = true, *d.CurrentJobs
	}
	if d.Active == nil {
		return a, nil
	}
	if len(d.Active) > maxActive {
		return a, wire.Invalid("active", "has %d entries; the maximum is %d", len(d.Active), maxActive)
	}
	a.Lists = true
	a.Active = make([]store.ActiveJob, len(d.Active))
	for i, job := range d.Active {
		field := fmt.Sprintf("active[%d]", i)
		if e := CheckID(field+".job_id", job.JobID); e != nil {
			return a, e
		}
		if e := CheckAttempt(field+".attempt_id", job.AttemptID); e != nil {
			return a, e
		}
		if job.AudioChunks < 0 {
			return a, wire.Invalid(field+".audio_chunks", "must be 0 or more, not %d", job.AudioChunks)
		}
		a.Active[i] = store.ActiveJob{Job: core.JobID(job.JobID), Attempt: job.AttemptID}
	}
	return a, nil
}

// CheckAttempt checks the number of an attempt.
func CheckAttempt(field string, attempt int) *wire.Error {
	if attempt < 1 || attempt > math.MaxInt32 {
		return wire.Invalid(field, "must be 1 or more, not %d", attempt)
	}
	return nil
}

// Unavailable converts the report of a node that a service is unavailable.
func Unavailable(in *wire.ModelNotAvailableRequest) (core.UnavailableReport, *wire.Error) {
	u := core.UnavailableReport{
		UnavailableService: core.UnavailableService{
			Node: core.NodeID(in.NodeID), Service: in.ServiceID, Version: in.Version, Reason: core.ClassifyReason(in.Reason),
		},
		Detail: identifierOrEmpty(in.Reason), Job: core.JobID(in.JobID), Attempt: in.AttemptID,
	}
	if e := CheckID("node_id", in.NodeID); e != nil {
		return u, e
	}
	if e := CheckOptionalID("job_id", in.JobID); e != nil {
		return u, e
	}
	if in.ServiceID == "" || len(in.ServiceID) > maxName {
		return u, wire.Invalid("service_id", "must be 1 to %d characters", maxName)
	}
	if e := checkText("service_id", in.ServiceID); e != nil {
		return u, e
	}
	if e := checkText("version", in.Version); e != nil {
		return u, e
	}
	if in.JobID != "" {
		if e := CheckAttempt("attempt_id", in.AttemptID); e != nil {
			return u, e
		}
	}
	return u, nil
}

// SetTenant sets the key, the tenant and the pool of a node to those of its credential. An operator's names no tenant, and the node may
// declare any.
func SetTenant(p *auth.Principal, c *core.Change) *wire.Error {
	c.Key, c.Pool, c.Has.Key, c.Has.Pool = p.Key, p.Pool, true, true
	if p.Role == auth.Operator {
		return nil
	}
	if c.IsOfOther(p.Tenant) {
		return wire.FieldErrorf(wire.Forbidden, "tenant_id", "this key is of another tenant: leave it out")
	}
	c.Tenant, c.Has.Tenant = p.Tenant, true
	return nil
}
