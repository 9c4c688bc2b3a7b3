package convert

import (
	"fmt"
	"math"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// Bounds on what one message may hold. They are far above what any real node or job needs.
const (
	maxList   = 4096
	maxPairs  = 20_000
	maxActive = core.MaxConcurrentJobs
	maxName   = 256
	maxRef    = 2048
)

// Reader reads requests: it checks their form and converts them. It remembers how language tags are normalised, because the same
// few come with every request.
type Reader struct {
	// checkCallback returns what is wrong with a callback URL.
	checkCallback func(string) error
	langs         langs
}

// NewReader makes a reader. checkCallback returns what is wrong with a callback URL.
func NewReader(checkCallback func(string) error) *Reader {
	r := &Reader{checkCallback: checkCallback}
	r.langs.init()
	return r
}

// CheckID checks an identifier that must be present.
func CheckID(field, id string) *wire.Error {
	if !core.ValidID(id) {
		if id == "" {
			return wire.Invalid(field, "is missing; give 1 to %d of A-Z a-z 0-9 . _ : -", core.MaxIDLen)
		}
		return wire.Invalid(field, "must be 1 to %d of A-Z a-z 0-9 . _ : -", core.MaxIDLen)
	}
	return nil
}

// CheckOptionalID checks an identifier that may be absent.
func CheckOptionalID(field, id string) *wire.Error {
	if id == "" {
		return nil
	}
	return CheckID(field, id)
}

func checkNames(field string, names []string) *wire.Error {
	if len(names) > maxList {
		return wire.Invalid(field, "holds %d names; %d is the most", len(names), maxList)
	}
	for i, name := range names {
		if name == "" || len(name) > maxName {
			return wire.Invalid(fmt.Sprintf("%s[%d]", field, i), "must be 1 to %d characters", maxName)
		}
	}
	return nil
}

// Lang reads a language tag.
func (r *Reader) Lang(field, tag string) (core.Lang, *wire.Error) {
	l, err := r.langs.parse(tag)
	if err != nil {
		return "", wire.Invalid(field, "%s", err)
	}
	return l, nil
}

// langSet reads a list of tags; absent stays absent.
func (r *Reader) langSet(field string, tags []string) (core.LangSet, *wire.Error) {
	if tags == nil {
		return nil, nil
	}
	if len(tags) > maxList {
		return nil, wire.Invalid(field, "holds %d languages; %d is the most", len(tags), maxList)
	}
	set := make(core.LangSet, len(tags))
	for i, tag := range tags {
		l, e := r.Lang(fmt.Sprintf("%s[%d]", field, i), tag)
		if e != nil {
			return nil, e
		}
		set[i] = l
	}
	return set, nil
}

func (r *Reader) pairs(pairs [][]string) ([]core.Direction, *wire.Error) {
	if pairs == nil {
		return nil, nil
	}
	if len(pairs) > maxPairs {
		return nil, wire.Invalid("nmt_pairs", "holds %d pairs; %d is the most", len(pairs), maxPairs)
	}
	out := make([]core.Direction, len(pairs))
	for i, pair := range pairs {
		field := fmt.Sprintf("nmt_pairs[%d]", i)
		if len(pair) != 2 {
			return nil, wire.Invalid(field, "must be [source, target], not %d entries", len(pair))
		}
		src, e := r.Lang(field+"[0]", pair[0])
		if e != nil {
			return nil, e
		}
		tgt, e := r.Lang(field+"[1]", pair[1])
		if e != nil {
			return nil, e
		}
		if src == tgt {
			return nil, wire.Invalid(field, "source and target are the same language (%s)", src)
		}
		out[i] = core.Direction{Src: src, Tgt: tgt}
	}
	return out, nil
}

// Declaration reads what a node declares.
func (r *Reader) Declaration(d *wire.Declaration) (nodes.Patch, *wire.Error) {
	var p nodes.Patch
	if d.Health != "" {
		h, err := core.ParseHealth(d.Health)
		if err != nil {
			return p, wire.Invalid("health", "%s", err)
		}
		p.Health = h
	}
	if d.SemanticLangs != nil && len(d.SemanticLangs) == 0 {
		return p, wire.Invalid("semantic_langs", "must not be empty: without semantic repair a node can do no job")
	}
	if n := d.MaxConcurrentJobs; n != nil && (*n < 0 || *n > core.MaxConcurrentJobs) {
		return p, wire.Invalid("max_concurrent_jobs", "must be between 0 and %d, not %d", core.MaxConcurrentJobs, *n)
	}
	p.MaxJobs = d.MaxConcurrentJobs

	var e *wire.Error
	if p.ASR, e = r.langSet("asr_langs", d.ASRLangs); e != nil {
		return p, e
	}
	if p.Semantic, e = r.langSet("semantic_langs", d.SemanticLangs); e != nil {
		return p, e
	}
	if p.TTS, e = r.langSet("tts_langs", d.TTSLangs); e != nil {
		return p, e
	}
	if p.Pairs, e = r.pairs(d.NMTPairs); e != nil {
		return p, e
	}
	if e := checkNames("installed_models", d.InstalledModels); e != nil {
		return p, e
	}
	if e := checkNames("features", d.Features); e != nil {
		return p, e
	}
	p.Models, p.Features = d.InstalledModels, d.Features
	if p.Services, e = services(d.InstalledServices); e != nil {
		return p, e
	}
	if p.States, e = states(d.CapabilityState); e != nil {
		return p, e
	}
	if p.Load, e = load(d.CurrentLoad); e != nil {
		return p, e
	}
	if d.Region != nil && len(*d.Region) > maxName {
		return p, wire.Invalid("region", "must be at most %d characters", maxName)
	}
	if d.Zone != nil && len(*d.Zone) > maxName {
		return p, wire.Invalid("zone", "must be at most %d characters", maxName)
	}
	p.Region, p.Zone = d.Region, d.Zone
	if d.TenantID != nil {
		if e := CheckOptionalID("tenant_id", *d.TenantID); e != nil {
			return p, e
		}
		tenant := core.TenantID(*d.TenantID)
		p.Tenant = &tenant
	}
	if d.CallbackURL != nil && *d.CallbackURL != "" {
		if len(*d.CallbackURL) > maxRef {
			return p, wire.Invalid("callback_url", "must be at most %d characters", maxRef)
		}
		if err := r.checkCallback(*d.CallbackURL); err != nil {
			return p, wire.Invalid("callback_url", "%s", err)
		}
	}
	p.Callback = d.CallbackURL
	p.Types = types(d.CapabilityByType)
	return p, nil
}

func types(c *wire.CapabilityByType) *core.ServiceTypes {
	if c == nil {
		return nil
	}
	tri := func(b *bool) core.Tri {
		if b == nil {
			return core.Unknown
		}
		return core.TriOf(*b)
	}
	return &core.ServiceTypes{ASR: tri(c.ASR), NMT: tri(c.NMT), TTS: tri(c.TTS), Tone: tri(c.Tone), Semantic: tri(c.Semantic)}
}

func services(list []wire.Service) ([]core.Service, *wire.Error) {
	if list == nil {
		return nil, nil
	}
	if len(list) > maxList {
		return nil, wire.Invalid("installed_services", "holds %d services; %d is the most", len(list), maxList)
	}
	out := make([]core.Service, len(list))
	for i, sv := range list {
		field := fmt.Sprintf("installed_services[%d]", i)
		if sv.ServiceID == "" || len(sv.ServiceID) > maxName {
			return nil, wire.Invalid(field+".service_id", "must be 1 to %d characters", maxName)
		}
		if len(sv.Version) > maxName || len(sv.Type) > maxName {
			return nil, wire.Invalid(field, "version and type must be at most %d characters", maxName)
		}
		status, err := core.ParseServiceStatus(sv.Status)
		if err != nil {
			return nil, wire.Invalid(field+".status", "%s", err)
		}
		out[i] = core.Service{ID: sv.ServiceID, Version: sv.Version, Type: sv.Type, Status: status}
	}
	return out, nil
}

// states reads the status of services.
func states(given map[string]string) (map[string]core.ServiceStatus, *wire.Error) {
	if len(given) == 0 {
		return nil, nil
	}
	if len(given) > maxList {
		return nil, wire.Invalid("capability_state", "holds %d services; %d is the most", len(given), maxList)
	}
	out := make(map[string]core.ServiceStatus, len(given))
	for id, name := range given {
		if id == "" || len(id) > maxName {
			return nil, wire.Invalid("capability_state", "names a service by %d characters; 1 to %d are allowed", len(id), maxName)
		}
		status, err := core.ParseServiceStatus(name)
		if err != nil {
			return nil, wire.Invalid("capability_state", "of %.64q: %s", id, err)
		}
		out[id] = status
	}
	return out, nil
}

func load(l *wire.Load) (*core.Load, *wire.Error) {
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

// OptionalLang reads a language tag that may be absent.
func (r *Reader) OptionalLang(field, tag string) (core.Lang, *wire.Error) {
	if tag == "" {
		return "", nil
	}
	return r.Lang(field, tag)
}

// Registration reads a declaration that must be complete, and the jobs that the node reports.
func (r *Reader) Registration(d *wire.Declaration) (nodes.Patch, store.Activity, *wire.Error) {
	if d.SemanticLangs == nil {
		return nodes.Patch{}, store.Activity{}, wire.Invalid("semantic_langs", "is missing: list the languages the node can repair")
	}
	if d.MaxConcurrentJobs == nil {
		return nodes.Patch{}, store.Activity{}, wire.Invalid("max_concurrent_jobs", "is missing: say how many jobs the node takes at once")
	}
	p, e := r.Declaration(d)
	if e != nil {
		return nodes.Patch{}, store.Activity{}, e
	}
	a, e := Activity(d)
	return p, a, e
}

// Activity reads which jobs a node reports.
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
		return a, wire.Invalid("active", "holds %d jobs; %d is the most", len(d.Active), maxActive)
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

// Spec reads a dispatch request.
func (r *Reader) Spec(in *wire.DispatchRequest) (core.Spec, *wire.Error) {
	spec := core.Spec{
		Request: core.RequestID(in.RequestID), Tenant: core.TenantID(in.TenantID), Session: core.SessionID(in.SessionID),
		AudioRef: in.AudioRef,
	}
	if e := CheckOptionalID("request_id", in.RequestID); e != nil {
		return spec, e
	}
	if e := CheckOptionalID("tenant_id", in.TenantID); e != nil {
		return spec, e
	}
	if e := CheckID("session_id", in.SessionID); e != nil {
		return spec, e
	}
	if len(in.AudioRef) > maxRef {
		return spec, wire.Invalid("audio_ref", "must be at most %d characters", maxRef)
	}
	var e *wire.Error
	if spec.Direction.Src, e = r.Lang("src_lang", in.SrcLang); e != nil {
		return spec, e
	}
	if spec.Direction.Tgt, e = r.Lang("tgt_lang", in.TgtLang); e != nil {
		return spec, e
	}
	if spec.Direction.Src == spec.Direction.Tgt {
		return spec, wire.Invalid("tgt_lang", "is the same language as src_lang (%s): there is nothing to translate", spec.Direction.Src)
	}
	if audio.IsSession(in.AudioRef) {
		return spec, wire.Invalid("audio_ref", "must not begin with %s: that is the audio of sessions", audio.RefPrefix)
	}
	spec.Options, e = r.Options(&in.Options)
	return spec, e
}

// Options reads what a job requires beyond its direction.
func (r *Reader) Options(in *wire.DispatchOptions) (core.Options, *wire.Error) {
	o := core.Options{
		RequireTTS: in.RequireTTS, Strict: in.Strict, Region: in.Region,
		RequiredServices: in.RequiredServices, RequiredModels: in.RequiredModels, Features: in.Features,
	}
	if in.PreferredNodeID != nil {
		if e := CheckOptionalID("options.preferred_node_id", *in.PreferredNodeID); e != nil {
			return o, e
		}
		o.PreferredNode = core.NodeID(*in.PreferredNodeID)
	}
	if o.Strict && o.PreferredNode == "" {
		return o, wire.Invalid("options.strict", "needs preferred_node_id")
	}
	for field, names := range map[string][]string{
		"options.required_services": o.RequiredServices, "options.required_models": o.RequiredModels, "options.features": o.Features,
	} {
		if e := checkNames(field, names); e != nil {
			return o, e
		}
	}
	if len(o.Region) > maxName {
		return o, wire.Invalid("options.region", "must be at most %d characters", maxName)
	}
	return o, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Unavailable reads the report of a node that it lacks a service.
func Unavailable(in *wire.ModelNotAvailableRequest) (nodes.Unavailable, *wire.Error) {
	u := nodes.Unavailable{
		Node: core.NodeID(in.NodeID), Service: in.ServiceID, Detail: detail(in.Reason), Job: core.JobID(in.JobID), Attempt: in.AttemptID,
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
	if in.JobID != "" {
		if e := CheckAttempt("attempt_id", in.AttemptID); e != nil {
			return u, e
		}
	}
	return u, nil
}

// Tenant is the tenant that a node's credential names. What the node declares must not contradict it; a nil grant is that of an
// operator, who may name any.
func Tenant(grant *auth.NodeGrant, declared *core.TenantID) (*core.TenantID, *wire.Error) {
	if grant == nil || grant.Tenant == "" {
		return declared, nil
	}
	if declared != nil && *declared != grant.Tenant {
		return nil, wire.FieldErrorf(wire.Forbidden, "tenant_id", "this token is of another tenant")
	}
	return &grant.Tenant, nil
}
