package convert_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

// newReader makes a reader that allows every callback URL but one.
func newReader() *convert.Reader {
	return convert.NewReader(func(url string) error {
		if url == "http://forbidden" {
			return errors.New("is not allowed")
		}
		return nil
	})
}

// field is the field of an error; empty for none.
func field(e *wire.Error) string {
	if e == nil {
		return ""
	}
	return e.Field
}

func TestDeclarationIsConverted(t *testing.T) {
	t.Parallel()
	yes, half, region, tenant, callback := true, 0.5, "eu", "acme", "http://node/jobs"
	limit := 3
	got, e := newReader().Declaration(&wire.Declaration{
		Health: "degraded", ASRLangs: []string{"EN"}, SemanticLangs: []string{"en", "cmn"}, NMTPairs: [][]string{{"en", "zho"}}, TTSLangs: []string{},
		CapabilityByType: &wire.CapabilityByType{Tone: &yes}, InstalledModels: []string{"m"}, Features: []string{"f"},
		InstalledServices: []wire.Service{{ServiceID: "s", Version: "1", Type: "asr", Status: "ready"}}, CapabilityState: map[string]string{"s": "error"},
		MaxConcurrentJobs: &limit, CurrentLoad: &wire.Load{GPU: &half}, Region: &region, TenantID: &tenant, CallbackURL: &callback,
	})
	if e != nil {
		t.Fatal(e)
	}
	load := core.UnknownLoad
	load.GPU = 0.5
	want := core.Change{
		Declaration: core.Declaration{
			Health: core.HealthDegraded, MaxJobs: limit, Region: region, Tenant: core.TenantID(tenant), Callback: callback,
			Capability: core.Capability{
				ASR: core.LangSet{"en"}, Semantic: core.LangSet{"en", "zh"}, TTS: core.LangSet{},
				Pairs: []core.Direction{{Src: "en", Tgt: "zh"}}, Types: core.ServiceTypes{Tone: core.Yes}, Models: []string{"m"}, Features: []string{"f"},
				Services: []core.Service{{ID: "s", Version: "1", Type: "asr", Status: core.ServiceReady}},
			},
		},
		Has:    core.Fields{MaxJobs: true, Types: true, Region: true, Tenant: true, Callback: true},
		States: map[string]core.ServiceStatus{"s": core.ServiceError}, Load: &load,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestAbsentFieldsStayAbsent: a heartbeat changes only the fields that it has.
func TestAbsentFieldsStayAbsent(t *testing.T) {
	t.Parallel()
	got, e := newReader().Declaration(&wire.Declaration{})
	if diff := cmp.Diff(core.Change{}, got); diff != "" || e != nil {
		t.Errorf("%v (-want +got)\n%s", e, diff)
	}
	if a, e := convert.Activity(&wire.Declaration{}); !cmp.Equal(a, store.Activity{}) || e != nil {
		t.Errorf("%+v, %v", a, e)
	}
}

func TestInvalidDeclarations(t *testing.T) {
	t.Parallel()
	r := newReader()
	long, negative, large, two, empty, bad := strings.Repeat("x", 300), -1, 10_001, 2.0, "", "a b"
	forbidden := "http://forbidden"
	for want, d := range map[string]wire.Declaration{
		"health":                           {Health: "fine"},
		"semantic_langs":                   {SemanticLangs: []string{}},
		"semantic_langs[1]":                {SemanticLangs: []string{"en", "?"}},
		"asr_langs":                        {ASRLangs: make([]string, 4097)},
		"tts_langs[0]":                     {TTSLangs: []string{""}},
		"nmt_pairs":                        {NMTPairs: make([][]string, 20_001)},
		"nmt_pairs[0]":                     {NMTPairs: [][]string{{"en"}}},
		"nmt_pairs[0][0]":                  {NMTPairs: [][]string{{"?", "en"}}},
		"nmt_pairs[0][1]":                  {NMTPairs: [][]string{{"en", "?"}}},
		"installed_models":                 {InstalledModels: make([]string, 4097)},
		"installed_models[1]":              {InstalledModels: []string{"m@2", "a=b"}},
		"features[0]":                      {Features: []string{long}},
		"installed_services":               {InstalledServices: make([]wire.Service, 4097)},
		"installed_services[0].service_id": {InstalledServices: []wire.Service{{Status: "ready"}}},
		"installed_services[1].service_id": {InstalledServices: []wire.Service{{ServiceID: "s", Status: "ready"}, {ServiceID: "s@2", Status: "ready"}}},
		"installed_services[2].service_id": {InstalledServices: []wire.Service{{ServiceID: "s", Status: "ready"}, {ServiceID: "t", Status: "ready"}, {ServiceID: "\x00", Status: "ready"}}},
		"installed_services[0].version":    {InstalledServices: []wire.Service{{ServiceID: "s", Version: "1\n", Status: "ready"}}},
		"installed_services[0].type":       {InstalledServices: []wire.Service{{ServiceID: "s", Type: "asr\x7f", Status: "ready"}}},
		"installed_models[0]":              {InstalledModels: []string{"m@\x00"}},
		"installed_services[0].status":     {InstalledServices: []wire.Service{{ServiceID: "s", Status: "fine"}}},
		"capability_state":                 {CapabilityState: map[string]string{"s": "fine"}},
		"max_concurrent_jobs":              {MaxConcurrentJobs: &negative},
		"current_load.memory":              {CurrentLoad: &wire.Load{Memory: &two}},
		"region":                           {Region: &bad},
		"zone":                             {Zone: &long},
		"tenant_id":                        {TenantID: &bad},
		"callback_url":                     {CallbackURL: &forbidden},
	} {
		if _, e := r.Declaration(&d); field(e) != want {
			t.Errorf("%s: the error is %v", want, e)
		}
	}
	for _, d := range []wire.Declaration{{MaxConcurrentJobs: &large}, {NMTPairs: [][]string{{"zh", "cmn"}}}} {
		if _, e := r.Declaration(&d); e == nil {
			t.Errorf("%+v is accepted", d)
		}
	}
	if _, e := r.Declaration(&wire.Declaration{CallbackURL: &empty}); e != nil { // removes the URL
		t.Error(e)
	}
}

// TestControlCharactersAreRefused: no name, version or region that a node declares has control characters.
func TestControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	r, text := newReader(), "a\x00b"
	for want, d := range map[string]wire.Declaration{
		"region": {Region: &text}, "zone": {Zone: &text}, "features[0]": {Features: []string{text}}, "installed_models[0]": {InstalledModels: []string{text}},
		"capability_state": {CapabilityState: map[string]string{text: "ready"}},
	} {
		if _, e := r.Declaration(&d); field(e) != want || e.Code != wire.InvalidRequest {
			t.Errorf("%s: the error is %v", want, e)
		}
	}
	for want, in := range map[string]wire.ModelNotAvailableRequest{
		"service_id": {NodeID: "n", ServiceID: text}, "version": {NodeID: "n", ServiceID: "s", Version: text},
	} {
		if _, e := convert.Unavailable(&in); field(e) != want {
			t.Errorf("%s: the error is %v", want, e)
		}
	}
}

// TestRegistrationRequiresFields: a registration needs languages and slots; a heartbeat does not.
func TestRegistrationRequiresFields(t *testing.T) {
	t.Parallel()
	r, slots := newReader(), 1
	for want, d := range map[string]wire.Declaration{
		"semantic_langs": {MaxConcurrentJobs: &slots}, "max_concurrent_jobs": {SemanticLangs: []string{"en"}},
		"": {SemanticLangs: []string{"en"}, MaxConcurrentJobs: &slots},
	} {
		if _, _, e := r.Registration(&d); field(e) != want {
			t.Errorf("want %q, got %v", want, e)
		}
	}
}

func TestActivity(t *testing.T) {
	t.Parallel()
	attempt := func(job string, n, chunks int) wire.ActiveAttempt {
		return wire.ActiveAttempt{ActiveJob: wire.ActiveJob{JobID: job, AttemptID: n}, AudioChunks: chunks}
	}
	three, negative := 3, -1
	for name, c := range map[string]struct {
		d     wire.Declaration
		want  store.Activity
		field string
	}{
		"an empty list is a list": {wire.Declaration{Active: []wire.ActiveAttempt{}}, store.Activity{Lists: true, Active: []store.ActiveJob{}}, ""},
		"a list and a number": {
			wire.Declaration{Active: []wire.ActiveAttempt{attempt("j", 2, 1)}, CurrentJobs: &three},
			store.Activity{Lists: true, Active: []store.ActiveJob{{Job: "j", Attempt: 2}}, Counts: true, Current: 3}, "",
		},
		"a negative number":     {wire.Declaration{CurrentJobs: &negative}, store.Activity{}, "current_jobs"},
		"no job id":             {wire.Declaration{Active: []wire.ActiveAttempt{attempt("", 1, 0)}}, store.Activity{}, "active[0].job_id"},
		"attempt 0":             {wire.Declaration{Active: []wire.ActiveAttempt{attempt("j", 1, 0), attempt("j", 0, 0)}}, store.Activity{}, "active[1].attempt_id"},
		"negative audio chunks": {wire.Declaration{Active: []wire.ActiveAttempt{attempt("j", 1, -1)}}, store.Activity{}, "active[0].audio_chunks"},
		"too many":              {wire.Declaration{Active: make([]wire.ActiveAttempt, core.MaxConcurrentJobs+1)}, store.Activity{}, "active"},
	} {
		got, e := convert.Activity(&c.d)
		if field(e) != c.field || e == nil && !cmp.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, e)
		}
	}
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	in := wire.ModelNotAvailableRequest{NodeID: "n", ServiceID: "s", Version: "3.1", Reason: "CHECKSUM", JobID: "j", AttemptID: 2}
	want := core.UnavailableReport{UnavailableService: core.UnavailableService{Node: "n", Service: "s", Version: "3.1", Reason: core.UnavailableRuntimeError}, Detail: "CHECKSUM", Job: "j", Attempt: 2}
	if got, e := convert.Unavailable(&in); got != want || e != nil {
		t.Errorf("%+v, %v", got, e)
	}
	in.Reason = "the user asked for the old harbour"
	if got, _ := convert.Unavailable(&in); got.Detail != "" {
		t.Errorf("prose is kept: %q", got.Detail)
	}
	for want, in := range map[string]wire.ModelNotAvailableRequest{
		"node_id": {ServiceID: "s"}, "service_id": {NodeID: "n"}, "job_id": {NodeID: "n", ServiceID: "s", JobID: "a b"},
		"version": {NodeID: "n", ServiceID: "s", Version: strings.Repeat("1", 257)}, "attempt_id": {NodeID: "n", ServiceID: "s", JobID: "j"}, "": {NodeID: "n", ServiceID: "s"},
	} {
		if _, e := convert.Unavailable(&in); field(e) != want {
			t.Errorf("want %q, got %v", want, e)
		}
	}
}

// TestTenantOfCredential: the tenant of a node is that of its key, and the declaration must not contradict it.
func TestTenantOfCredential(t *testing.T) {
	t.Parallel()
	acme, other, none := core.TenantID("acme"), core.TenantID("other"), core.TenantID("")
	operator, ofAcme, ofNone := &auth.Principal{Role: auth.Operator}, &auth.Principal{Role: auth.Node, Tenant: acme}, &auth.Principal{Role: auth.Node}
	for name, c := range map[string]struct {
		caller         *auth.Principal
		declared, want *core.TenantID
		refused        bool
	}{
		"an operator":                     {operator, &other, &other, false},
		"an operator, nothing declared":   {operator, nil, nil, false},
		"a key without a tenant":          {ofNone, nil, &none, false},
		"a key without a tenant, claimed": {ofNone, &other, &other, true},
		"nothing declared":                {ofAcme, nil, &acme, false},
		"the same tenant declared":        {ofAcme, &acme, &acme, false},
		"another tenant declared":         {ofAcme, &other, &other, true},
		"no tenant declared":              {ofAcme, &none, &none, true},
	} {
		var p core.Change
		if c.declared != nil {
			p.Tenant, p.Has.Tenant = *c.declared, true
		}
		e := convert.SetTenant(c.caller, &p)
		var got *core.TenantID
		if p.Has.Tenant {
			got = &p.Tenant
		}
		if (e != nil) != c.refused || !cmp.Equal(got, c.want) || e != nil && e.Code != wire.Forbidden {
			t.Errorf("%s: %+v, %v", name, p, e)
		}
	}
}
