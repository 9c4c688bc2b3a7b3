package convert

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Spec converts a dispatch request.
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
	if len(in.AudioRef) > maxURL {
		return spec, wire.Invalid("audio_ref", "must be at most %d characters", maxURL)
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

// MaxWaitMS is the longest time in milliseconds that a job may ask to wait for a slot.
const MaxWaitMS = 60_000

// Options converts the requirements of a job beyond its direction.
func (r *Reader) Options(in *wire.DispatchOptions) (core.Options, *wire.Error) {
	o := core.Options(*in)
	o.Normalise()
	if ms := o.MaxWaitMS; ms != nil && (*ms < 0 || *ms > MaxWaitMS) {
		return o, wire.Invalid("options.max_wait_ms", "must be between 0 and %d, not %d", MaxWaitMS, *ms)
	}
	if e := CheckOptionalID("options.preferred_node_id", string(o.Preferred())); e != nil {
		return o, e
	}
	if o.Strict && o.Preferred() == "" {
		return o, wire.Invalid("options.strict", "needs preferred_node_id")
	}
	for _, list := range []struct {
		field string
		names *[]string
		check func(string) error
	}{
		{"options.required_services", &o.RequiredServices, core.CheckRequired},
		{"options.required_models", &o.RequiredModels, core.CheckRequired},
		{"options.features", &o.Features, nil},
	} {
		var e *wire.Error
		if *list.names, e = requiredNames(list.field, *list.names, list.check); e != nil {
			return o, e
		}
	}
	for field, region := range map[string]string{"options.region": o.Region, "options.preferred_region": o.PreferredRegion} {
		if e := CheckOptionalID(field, region); e != nil {
			return o, e
		}
	}
	return o, nil
}

// requiredNames returns the names that a job requires, each once. Every node may be checked for each of them, so there may be few.
func requiredNames(field string, names []string, check func(string) error) ([]string, *wire.Error) {
	if e := checkNames(field, names); e != nil {
		return nil, e
	}
	seen := make(map[string]bool, len(names))
	var distinct []string
	for i, name := range names {
		if check != nil {
			if err := check(name); err != nil {
				return nil, wire.Invalid(fmt.Sprintf("%s[%d]", field, i), "%v", err)
			}
		}
		if !seen[name] {
			seen[name] = true
			distinct = append(distinct, name)
		}
	}
	if len(distinct) > core.MaxRequired {
		return nil, wire.Invalid(field, "has %d different entries; the maximum is %d", len(distinct), core.MaxRequired)
	}
	return distinct, nil
}

// NodeResult is the part of a node's result that the scheduler reads. The rest is passed on unchanged.
type NodeResult struct {
	TextSrc string           `json:"text_src"`
	TextTgt string           `json:"text_tgt"`
	Latency map[string]int64 `json:"latency"`
	TTS     bool             `json:"tts"`
	// TTSAudio is the format of the speech; CheckResult has checked it.
	TTSAudio *wire.AudioFormat `json:"tts_audio"`
}

// CheckResult checks the form and the size of a node's result.
func CheckResult(result json.RawMessage) *wire.Error {
	body := bytes.TrimSpace(result)
	switch {
	case len(body) == 0, string(body) == "null":
		return nil
	case body[0] != '{':
		return wire.Invalid("result", "must be an object")
	case !fitsMessage(body):
		return wire.FieldErrorf(wire.PayloadTooLarge, "result",
			"it does not fit into a message of %d bytes, which contains its texts twice: send less", wire.MaxFrame)
	}
	var speech struct {
		TTSAudio *wire.AudioFormat `json:"tts_audio"`
	}
	if err := json.Unmarshal(body, &speech); err != nil {
		return wire.Invalid("result.tts_audio", "must be an object with encoding, sample_rate and channels")
	}
	_, e := audio.SpeechFormat("result.tts_audio", speech.TTSAudio)
	return e
}

// CheckPartial checks the fields of a partial result that a session receives unchanged.
func CheckPartial(p *wire.JobPartial) *wire.Error {
	if p.Rev < 1 {
		return wire.Invalid("rev", "must be 1 or more, not %d", p.Rev)
	}
	switch p.Stage {
	case "", "asr", "semantic", "nmt", "tts":
		return nil
	}
	return wire.Invalid("stage", "must be asr, semantic, nmt or tts, or absent")
}

const (
	// alwaysFits is the size up to which a result fits into a message however it is encoded: its texts are in it twice, and one
	// byte of a text takes at most six.
	alwaysFits = wire.MaxFrame / 16
	// messageOverhead is the maximum size of a message without the result: identifiers and numbers.
	messageOverhead = 4 << 10
)

// fitsMessage reports whether a node's result fits into the message that brings it to its session.
func fitsMessage(result json.RawMessage) bool {
	if len(result) <= alwaysFits {
		return true
	}
	var r NodeResult
	_ = json.Unmarshal(result, &r) // fields of another type count as absent, here as in the message
	text, err := wire.EncodeFrame(wire.SessionResult{TextSrc: r.TextSrc, TextTgt: r.TextTgt, Result: result})
	return err == nil && len(text)+messageOverhead <= wire.MaxFrame
}

// FailureReason converts the reason that a node gives for a failed attempt: the reason, and the detail that is kept.
func FailureReason(nodeReason string) (core.Reason, string) {
	switch reason := core.Reason(nodeReason); reason {
	case core.ReasonNodeBusy, core.ReasonModelNotAvailable, core.ReasonAudioLost:
		return reason, nodeReason
	}
	return core.ReasonNodeFailed, identifierOrEmpty(nodeReason)
}

// identifierOrEmpty keeps a node's reason if it has the form of an identifier. Prose is dropped, because it may quote an utterance.
func identifierOrEmpty(reason string) string {
	if !core.ValidID(reason) {
		return ""
	}
	return reason
}
