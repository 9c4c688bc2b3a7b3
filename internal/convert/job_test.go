package convert_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

func TestIdentifiers(t *testing.T) {
	t.Parallel()
	for id, valid := range map[string]bool{
		"a": true, "A-z.0_9:x": true, strings.Repeat("x", core.MaxIDLen): true,
		"": false, "a b": false, "a/b": false, "naïve": false, strings.Repeat("x", core.MaxIDLen+1): false,
	} {
		if e := convert.CheckID("f", id); (e == nil) != valid || !valid && e.Field != "f" {
			t.Errorf("%q: %v", id, e)
		}
		if e := convert.CheckOptionalID("f", id); (e == nil) != (valid || id == "") {
			t.Errorf("%q, optional: %v", id, e)
		}
	}
}

// TestLanguageTags: tags are normalised, the same for a repeated one, and beyond the size of the cache.
func TestLanguageTags(t *testing.T) {
	t.Parallel()
	r := newReader()
	for range 2 {
		for tag, want := range map[string]core.Lang{"EN": "en", "cmn-Hans": "zh", "zh-TW": "zh-TW"} {
			if got, e := r.Lang("f", tag); got != want || e != nil {
				t.Errorf("%s is %s, %v; want %s", tag, got, e, want)
			}
		}
		if _, e := r.Lang("f", "not a language"); field(e) != "f" {
			t.Errorf("an invalid tag: %v", e)
		}
	}
	for i := range 5000 {
		tag := fmt.Sprintf("en-x-%d", i)
		if first, e := r.Lang("f", tag); e != nil {
			t.Fatalf("%s: %v", tag, e)
		} else if again, _ := r.Lang("f", tag); again != first {
			t.Fatalf("%s is %s, and then %s", tag, first, again)
		}
	}
	if l, e := r.OptionalLang("f", ""); l != "" || e != nil {
		t.Errorf("an absent tag: %q, %v", l, e)
	}
}

func TestSpec(t *testing.T) {
	t.Parallel()
	r, node := newReader(), "n"
	good := wire.DispatchRequest{
		RequestID: "r", TenantID: "acme", SessionID: "s", SrcLang: "en", TgtLang: "cmn", AudioRef: "blob://1",
		Options: wire.DispatchOptions{
			RequireTTS: true, RequiredServices: []string{"sv"}, RequiredModels: []string{"m"}, Features: []string{"f"}, PreferredNodeID: &node, Strict: true, Region: "eu",
		},
	}
	want := core.Spec{
		Request: "r", Tenant: "acme", Session: "s", Direction: core.Direction{Src: "en", Tgt: "zh"}, AudioRef: "blob://1",
		Options: core.Options{
			RequireTTS: true, RequiredServices: []string{"sv"}, RequiredModels: []string{"m"}, Features: []string{"f"}, PreferredNodeID: new("n"), Strict: true, Region: "eu",
		},
	}
	got, e := r.Spec(&good)
	if diff := cmp.Diff(want, got); diff != "" || e != nil {
		t.Fatalf("%v (-want +got)\n%s", e, diff)
	}
	bad, long := "a b", strings.Repeat("x", 3000)
	for want, change := range map[string]func(*wire.DispatchRequest){
		"request_id":                   func(d *wire.DispatchRequest) { d.RequestID = bad },
		"tenant_id":                    func(d *wire.DispatchRequest) { d.TenantID = bad },
		"session_id":                   func(d *wire.DispatchRequest) { d.SessionID = "" },
		"audio_ref":                    func(d *wire.DispatchRequest) { d.AudioRef = "session:j" },
		"src_lang":                     func(d *wire.DispatchRequest) { d.SrcLang = "?" },
		"tgt_lang":                     func(d *wire.DispatchRequest) { d.TgtLang = "eng" },
		"options.preferred_node_id":    func(d *wire.DispatchRequest) { d.Options.PreferredNodeID = &bad },
		"options.strict":               func(d *wire.DispatchRequest) { d.Options.PreferredNodeID = nil },
		"options.required_services[0]": func(d *wire.DispatchRequest) { d.Options.RequiredServices = []string{""} },
		"options.required_models":      func(d *wire.DispatchRequest) { d.Options.RequiredModels = make([]string, 4097) },
		"options.features[1]":          func(d *wire.DispatchRequest) { d.Options.Features = []string{"f", long} },
		"options.required_services":    func(d *wire.DispatchRequest) { d.Options.RequiredServices = manyNames(core.MaxRequired + 1) },
		"options.features":             func(d *wire.DispatchRequest) { d.Options.Features = manyNames(core.MaxRequired + 1) },
		"options.required_models[1]":   func(d *wire.DispatchRequest) { d.Options.RequiredModels = []string{"a", "a\x00b"} },
		"options.features[0]":          func(d *wire.DispatchRequest) { d.Options.Features = []string{"\x01"} },
		"options.preferred_region":     func(d *wire.DispatchRequest) { d.Options.PreferredRegion = "eu west" },
		"options.region":               func(d *wire.DispatchRequest) { d.Options.Region = long },
	} {
		in := good
		change(&in)
		if _, e := r.Spec(&in); field(e) != want {
			t.Errorf("want %s, got %v", want, e)
		}
	}
	in := good
	in.AudioRef = long
	if _, e := r.Spec(&in); field(e) != "audio_ref" {
		t.Errorf("a long audio_ref: %v", e)
	}
}

// manyNames returns so many different names.
func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("name-", i))
	}
	return names
}

// TestRequiredNamesAreFew: a name counts once, however often it is listed, and as many different ones are accepted as a job may require.
func TestRequiredNamesAreFew(t *testing.T) {
	t.Parallel()
	names := manyNames(core.MaxRequired)
	in := wire.DispatchOptions{RequiredServices: slices.Repeat([]string{"b", "a@>=1"}, 2048), RequiredModels: slices.Concat(names, names), Features: names}
	got, e := newReader().Options(&in)
	want := core.Options{RequiredServices: []string{"b", "a@>=1"}, RequiredModels: names, Features: names}
	if diff := cmp.Diff(want, got); diff != "" || e != nil {
		t.Errorf("%v (-want +got)\n%s", e, diff)
	}
	in.RequiredModels = manyNames(core.MaxRequired + 1)
	if _, e := newReader().Options(&in); e == nil || e.Code != wire.InvalidRequest || e.Detail != "options.required_models: has 33 different entries; the maximum is 32" {
		t.Errorf("%+v", e)
	}
}

func TestCheckResult(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		"": "", "null": "", " {} ": "", `{"text_tgt":"x","more":[1]}`: "",
		`"text"`: "result", `[1]`: "result", `{"tts_audio":"wav"}`: "result.tts_audio", `{"tts_audio":{"sample_rate":7}}`: "result.tts_audio.sample_rate",
	} {
		if e := convert.CheckResult(json.RawMessage(result)); field(e) != want {
			t.Errorf("%s: %v, want %q", result, e, want)
		}
	}
}

func TestCheckPartial(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		partial wire.JobPartial
		field   string
	}{
		{wire.JobPartial{Rev: 1}, ""},
		{wire.JobPartial{Rev: 7, Stage: "asr"}, ""},
		{wire.JobPartial{Rev: 7, Stage: "semantic"}, ""},
		{wire.JobPartial{Rev: 7, Stage: "nmt"}, ""},
		{wire.JobPartial{Rev: 7, Stage: "tts"}, ""},
		{wire.JobPartial{}, "rev"},
		{wire.JobPartial{Rev: -1}, "rev"},
		{wire.JobPartial{Rev: 1, Stage: "ASR"}, "stage"},
	} {
		if e := convert.CheckPartial(&c.partial); field(e) != c.field {
			t.Errorf("%+v: %v, want %q", c.partial, e, c.field)
		}
	}
}

// TestAcceptedResultsFitIntoMessages: a result that is accepted fits into the message to its session, whatever its text.
func TestAcceptedResultsFitIntoMessages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(rapid.SampledFrom([]string{"x", "\u2028", "é", "<", "\x01", "好"}).Draw(t, "char"), rapid.IntRange(0, 200_000).Draw(t, "n"))
		var b strings.Builder
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(rapid.Bool().Draw(t, "escaped"))
		if err := out.Encode(map[string]string{"text_src": text[:len(text)/2], "text_tgt": text}); err != nil {
			t.Fatal(err)
		}
		result := json.RawMessage(b.String())
		e := convert.CheckResult(result)
		var r convert.NodeResult
		if err := json.Unmarshal(result, &r); err != nil {
			t.Fatal(err)
		}
		message, err := wire.EncodeFrame(wire.SessionResult{TextSrc: r.TextSrc, TextTgt: r.TextTgt, Result: result})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case e == nil && len(message) > wire.MaxFrame:
			t.Fatalf("accepted, and its message has %d bytes", len(message))
		case e != nil && (e.Code != wire.PayloadTooLarge || len(message) < wire.MaxFrame*9/10):
			t.Fatalf("refused with %v, and its message has %d bytes", e, len(message))
		}
	})
}

func TestFailureReason(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]struct {
		reason core.Reason
		detail string
	}{
		"NODE_BUSY":           {core.ReasonNodeBusy, "NODE_BUSY"},
		"MODEL_NOT_AVAILABLE": {core.ReasonModelNotAvailable, "MODEL_NOT_AVAILABLE"},
		"AUDIO_LOST":          {core.ReasonAudioLost, "AUDIO_LOST"},
		"OUT_OF_MEMORY":       {core.ReasonNodeFailed, "OUT_OF_MEMORY"},
		"NODE_LOST":           {core.ReasonNodeFailed, "NODE_LOST"}, // only the scheduler decides this
		"prose with a quote":  {core.ReasonNodeFailed, ""},
		"":                    {core.ReasonNodeFailed, ""},
	} {
		if reason, detail := convert.FailureReason(given); reason != want.reason || detail != want.detail {
			t.Errorf("%q: %s %q, want %+v", given, reason, detail, want)
		}
	}
}
