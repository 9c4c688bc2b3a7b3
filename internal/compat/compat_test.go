package compat_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/compat"
	"github.com/lingua-scheduler/lingua/wire"
)

// decode decodes a message.
func decode[T any](t *testing.T, body string) *T {
	t.Helper()
	var in T
	if err := wire.Decode([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	return &in
}

// TestOwnMessagesAreUnchanged: a message of this protocol means the same here as in package wire, without warnings.
func TestOwnMessagesAreUnchanged(t *testing.T) {
	t.Parallel()
	const body = `{"type":"node_register","node_id":"gpu-1","resume_token":"0123456789abcdef","keepalive_ms":2000,"health":"ready",
		"asr_langs":["en"],"semantic_langs":["en","zh"],"nmt_pairs":[["en","zh"]],"tts_langs":["zh"],
		"capability_by_type":{"asr":true,"tone":false},"installed_models":["m@1"],"installed_services":[{"service_id":"asr","version":"1","type":"asr","status":"stopped"}],
		"capability_state":{"asr":"ready"},"features":["f"],"max_concurrent_jobs":2,"current_jobs":1,"current_load":{"cpu":0.5,"gpu":0.25},
		"region":"r","zone":"z","tenant_id":"acme","active":[{"job_id":"j","attempt_id":1,"audio_chunks":2}]}`
	in, want := decode[compat.NodeRegister](t, body), decode[wire.NodeRegister](t, body)
	warnings := in.Translate()
	if diff := cmp.Diff(*want, in.NodeRegister); diff != "" || len(warnings) > 0 {
		t.Errorf("(-want +got):\n%s%v", diff, warnings)
	}
	const job = `{"session_id":"s","src_lang":"en","tgt_lang":"zh","options":{"require_tts":true,"preferred_node_id":null,"required_models":["m"],"max_wait_ms":5}}`
	if diff := cmp.Diff(decode[wire.DispatchRequest](t, job), decode[compat.DispatchRequest](t, job).Translate()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	const start = `{"langs":["en","zh"],"src_lang":"zh","partials":true,"options":{"strict":true}}`
	if diff := cmp.Diff(decode[wire.SessionStart](t, start), decode[compat.SessionStart](t, start).Translate()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, update := range []string{`{"src_lang":"en"}`, `{"options":{}}`, `{"options":{"region":"eu"}}`} {
		if diff := cmp.Diff(decode[wire.SessionUpdate](t, update), decode[compat.SessionUpdate](t, update).Translate()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestDeclarations: what the documents call otherwise, and how it is read.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ given, want string }{
		"language_capabilities": {
			`"language_capabilities":{"asr_langs":["en"],"semantic_langs":["en","zh"],"nmt_pairs":[["en","zh"]],"tts_langs":["zh"]}`,
			`"asr_langs":["en"],"semantic_langs":["en","zh"],"nmt_pairs":[["en","zh"]],"tts_langs":["zh"]`,
		},
		"language_capabilities beside lists": {
			`"language_capabilities":{"semantic_langs":["fr"],"tts_langs":["fr"]},"semantic_langs":["en"]`, `"semantic_langs":["en"],"tts_langs":["fr"]`,
		},
		"usage":                       {`"cpu_usage":33,"gpu_usage":-1,"memory_usage":12.5`, `"current_load":{"cpu":0.33,"memory":0.125}`},
		"mem_usage":                   {`"mem_usage":100`, `"current_load":{"memory":1}`},
		"unknown usage":               {`"cpu_usage":-1,"gpu_usage":-1,"mem_usage":-1`, `"current_load":{}`},
		"usage of several processors": {`"cpu_usage":250,"mem_usage":-2`, `"current_load":{"cpu":1}`},
		"usage beside current_load":   {`"cpu_usage":33,"current_load":{"cpu":0.5}`, `"current_load":{"cpu":0.5}`},
		"capability_by_type":          {`"capability_by_type":{"asr":"true","nmt":"false","tts":true,"tone":null}`, `"capability_by_type":{"asr":true,"nmt":false,"tts":true}`},
		"services without status":     {`"installed_services":[{"service_id":"asr","type":"asr"},{"service_id":"nmt","status":"error"}]`, `"installed_services":[{"service_id":"asr","type":"asr","status":"ready"},{"service_id":"nmt","status":"error"}]`},
		"names of services":           {`"installed_services":["asr"]`, `"installed_services":[{"service_id":"asr","status":"ready"}]`},
		"no services":                 {`"installed_services":[]`, `"installed_services":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beat := decode[compat.NodeHeartbeat](t, "{"+c.given+"}")
			beat.Translate()
			if diff := cmp.Diff(*decode[wire.NodeHeartbeat](t, "{"+c.want+"}"), beat.NodeHeartbeat); diff != "" {
				t.Errorf("heartbeat (-want +got):\n%s", diff)
			}
			over := decode[compat.HeartbeatRequest](t, "{"+c.given+"}")
			if over.Translate(); !cmp.Equal(over.Declaration, beat.Declaration) {
				t.Errorf("over HTTP: %+v", over.Declaration)
			}
			want := beat.Declaration
			want.MaxConcurrentJobs = new(2)
			first, again := decode[compat.NodeRegister](t, `{"max_concurrent_jobs":2,`+c.given+"}"), decode[compat.RegisterRequest](t, `{"max_concurrent_jobs":2,`+c.given+"}")
			first.Translate()
			again.Translate()
			for _, got := range []wire.Declaration{first.Declaration, again.Declaration} {
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("registration (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestWarnings: a registration says what its sender should change.
func TestWarnings(t *testing.T) {
	t.Parallel()
	in := decode[compat.RegisterRequest](t, `{"semantic_langs":["en"],"gpu_model":"A100","max_jobs":3,
		"language_capabilities":{"asr":["en"]},"installed_services":["asr",{"service_id":"nmt","vram":2},{"service_id":"tts","vram":3}],"capability_state":{"asr":"ready"}}`)
	warnings := in.Translate()
	want := []string{"gpu_model is not known, and has no effect", "installed_services.vram is not known, and has no effect",
		"language_capabilities.asr is not known, and has no effect", "max_jobs is not known, and has no effect", "max_concurrent_jobs is missing: the node gets 1 job at a time"}
	if !slices.Equal(warnings, want) || *in.MaxConcurrentJobs != 1 {
		t.Errorf("%q, %d slots", warnings, *in.MaxConcurrentJobs)
	}
	many := make(map[string]any)
	for i := range 1000 {
		many[strings.Repeat("x", i+1)] = i
	}
	body, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	if warnings = decode[compat.NodeRegister](t, string(body)).Translate(); len(warnings) > 20 || len(strings.Join(warnings, "")) > 4000 {
		t.Errorf("%d warnings for 1000 unknown fields, of %d characters", len(warnings), len(strings.Join(warnings, "")))
	}
}

// TestRequirements: models are required under both names, in the options or beside them, and the languages of a session may be named alone.
func TestRequirements(t *testing.T) {
	t.Parallel()
	const models = `"required_model_ids":["b"],"options":{"required_models":["a"],"required_model_ids":["c"]}`
	want := []string{"a", "c", "b"}
	if got := decode[compat.DispatchRequest](t, "{"+models+"}").Translate().Options.RequiredModels; !slices.Equal(got, want) {
		t.Errorf("dispatch: %v", got)
	}
	start := decode[compat.SessionStart](t, `{"src_lang":"en","tgt_lang":"zh",`+models+"}").Translate()
	if !slices.Equal(start.Options.RequiredModels, want) || !slices.Equal(start.Langs, []string{"en", "zh"}) {
		t.Errorf("session: %+v", start)
	}
}

// TestRefusals: what cannot be read is refused, and the error names it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"capability_by_type":{"asr":"yes"}}`:              "capability_by_type.asr",
		`{"capability_by_type":"asr"}`:                      "capability_by_type",
		`{"installed_services":[1]}`:                        "installed_services",
		`{"installed_services":"asr"}`:                      "installed_services",
		`{"language_capabilities":{"semantic_langs":"en"}}`: "language_capabilities.semantic_langs",
		`{"language_capabilities":["en"]}`:                  "language_capabilities",
		`{"max_concurrent_jobs":"2"}`:                       "max_concurrent_jobs",
		`{"cpu_usage":"high"}`:                              "cpu_usage",
	} {
		var in compat.RegisterRequest
		err := wire.Decode([]byte(body), &in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", body, err, want)
		}
	}
	for body, want := range map[string]string{
		`{"options":{"require_tts":true,"deadline_s":3}}`: "deadline_s",
		`{"options":{"max_wait_ms":"5"}}`:                 "options.max_wait_ms",
		`{"options":[]}`:                                  "options",
		`{"options":{"required_model_ids":"a"}}`:          "options.required_model_ids",
	} {
		for name, in := range map[string]any{"dispatch": new(compat.DispatchRequest), "start": new(compat.SessionStart), "update": new(compat.SessionUpdate)} {
			if err := wire.Decode([]byte(body), in); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v, want it to name %s", name, body, err, want)
			}
		}
	}
}

// TestMetrics: the state of the catalog has the names of the documents beside ours.
func TestMetrics(t *testing.T) {
	t.Parallel()
	m := wire.Metrics{Instance: "i-1", Catalog: wire.MetricsCatalog{Configured: true, FailCount: 3, FetchedMS: 5, LastSuccessMS: 7}}
	body, err := json.Marshal(compat.MetricsOf(&m))
	if err != nil {
		t.Fatal(err)
	}
	if got := *decode[wire.Metrics](t, string(body)); !cmp.Equal(got, m) {
		t.Errorf("as our own: %+v", got)
	}
	const want = `"service_catalog":{"configured":true,"services":0,"fail_count":3,"last_success_ms":7,"fetched_ms":5,"fetched_at":5,"last_success_at":7}`
	if !strings.Contains(string(body), want) {
		t.Errorf("%s does not contain %s", body, want)
	}
}
