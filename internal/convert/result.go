package convert

import (
	"bytes"
	"encoding/json"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// NodeResult is the part of a node's result that the scheduler reads. The rest is passed on unchanged.
type NodeResult struct {
	TextSrc string           `json:"text_src"`
	TextTgt string           `json:"text_tgt"`
	Latency map[string]int64 `json:"latency"`
	TTS     bool             `json:"tts"`
	// TTSAudio is the format of the speech; CheckResult has checked it.
	TTSAudio *wire.AudioFormat `json:"tts_audio"`
}

// CheckResult returns what is wrong with a node's result, or nil.
func CheckResult(result json.RawMessage) *wire.Error {
	body := bytes.TrimSpace(result)
	switch {
	case len(body) == 0, string(body) == "null":
		return nil
	case body[0] != '{':
		return wire.Invalid("result", "must be an object")
	case !fitsMessage(body):
		return wire.FieldErrorf(wire.PayloadTooLarge, "result", "it does not fit into a message of %d bytes, in which its texts are twice: send less", wire.MaxFrame)
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

const (
	// alwaysFits is the size up to which a result fits into a message however it is encoded: its texts are in it twice, and one
	// byte of a text takes at most six.
	alwaysFits = wire.MaxFrame / 16
	// messageOverhead is the most that a message holds beside the result: identifiers and numbers.
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

// FailureReason is the reason of an attempt that a node reports as failed, and the detail that is kept of the node's own word.
func FailureReason(said string) (core.Reason, string) {
	switch reason := core.Reason(said); reason {
	case core.ReasonNodeBusy, core.ReasonModelNotAvailable:
		return reason, said
	}
	return core.ReasonNodeFailed, detail(said)
}

// detail keeps a node's own word if it has the form of an identifier. Prose is dropped, because it may hold what somebody said.
func detail(said string) string {
	if !core.ValidID(said) {
		return ""
	}
	return said
}
