package wire

import (
	"encoding/base64"
	"encoding/binary"
)

// ProbeRequest is the body of POST /v1/nodes/{id}/probe, which may be absent.
type ProbeRequest struct {
	SrcLang   string `json:"src_lang,omitempty" doc:"With tgt_lang: the direction. Absent: the first one that the node serves."`
	TgtLang   string `json:"tgt_lang,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty" minimum:"100" maximum:"60000" doc:"After what time the probe fails; 10000 unless given. The timeout of an attempt is the limit, if that is shorter."`
}

// ProbeResult is the answer of POST /v1/nodes/{id}/probe: how a synthetic utterance through one node ended. Stages that it did not reach
// are absent.
type ProbeResult struct {
	NodeID    string `json:"node_id"`
	OK        bool   `json:"ok" doc:"The node sent a result in time."`
	JobID     string `json:"job_id"`
	State     string `json:"state" enum:"DONE,FAILED,CANCELLED"`
	Reason    string `json:"reason" doc:"Why it failed; empty: it did not."`
	Detail    string `json:"detail" doc:"The reason in the node's own words; may be empty."`
	SrcLang   string `json:"src_lang"`
	TgtLang   string `json:"tgt_lang"`
	StartedMS int64  `json:"started_ms" doc:"When it began, Unix milliseconds."`
	ReserveMS *int64 `json:"reserve_ms,omitempty" doc:"How long it took to reserve a slot and to record the job."`
	DeliverMS *int64 `json:"deliver_ms,omitempty" doc:"How long the delivery took."`
	AckMS     *int64 `json:"ack_ms,omitempty" doc:"The time from the delivery to the acknowledgement. If another instance received it, it is known to 0.1 s, or absent if the result came sooner than that."`
	ResultMS  *int64 `json:"result_ms,omitempty" doc:"The time from the acknowledgement, or from the delivery if that is absent, to the result or the failure."`
	TotalMS   int64  `json:"total_ms" doc:"The time from the beginning to the end."`

	ResultWithheld bool `json:"result_withheld" doc:"The node sent a result. It is not shown."`
}

// ProbeAudioMS is the duration of ProbeAudio, and ProbeAudioFormat its format.
const ProbeAudioMS = 100

// ProbeAudioFormat is the format of ProbeAudio.
var ProbeAudioFormat = AudioFormat{Encoding: EncodingWAV, SampleRate: 16_000, Channels: 1}

// ProbeAudio is the audio of a probe, as a data URL: a WAV file with silence. It is in the assignment, so that a node needs nothing else
// for it.
var ProbeAudio = "data:audio/wav;base64," + base64.StdEncoding.EncodeToString(silence())

// silence makes a WAV file with silence.
func silence() []byte {
	const (
		bytesPerSample = 2
		header         = 44
	)
	rate := uint32(ProbeAudioFormat.SampleRate)
	size := rate * ProbeAudioMS / 1000 * bytesPerSample
	b := make([]byte, 0, header+size)
	b = append(b, "RIFF"...)
	b = binary.LittleEndian.AppendUint32(b, header-8+size)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16) // size of the format
	b = binary.LittleEndian.AppendUint16(b, 1)  // PCM
	b = binary.LittleEndian.AppendUint16(b, 1)  // channels
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = binary.LittleEndian.AppendUint32(b, rate*bytesPerSample)
	b = binary.LittleEndian.AppendUint16(b, bytesPerSample)
	b = binary.LittleEndian.AppendUint16(b, 8*bytesPerSample)
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, size)
	return append(b, make([]byte, size)...)
}
