package server_test

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// sendSpeech sends a chunk of a job's speech.
func (c *wsClient) sendSpeech(job string, chunk int, last bool, audio *wire.AudioFormat, data []byte) {
	c.t.Helper()
	h := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: job, AttemptID: 1}, Chunk: chunk, Last: last, Audio: audio}
	frame, err := wire.AppendBinary(nil, &h, data)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendBinary(frame)
}

// readSpeech reads speech to its end: the format in its first frame, and all chunks.
func (c *wsClient) readSpeech() (format wire.AudioFormat, chunks [][]byte) {
	c.t.Helper()
	for {
		h, data := c.readChunk()
		if h.Kind != wire.KindTTS || h.Chunk != len(chunks) || (h.Audio != nil) != (h.Chunk == 0) {
			c.t.Fatalf("%+v, want chunk %d", h, len(chunks))
		}
		if h.Audio != nil {
			format = *h.Audio
		}
		if chunks = append(chunks, data); h.Last {
			return format, chunks
		}
	}
}

// startSpeechSession starts a session with speech, and sends an utterance.
func (ts *testScheduler) startSpeechSession(langs ...string) *wsClient {
	ts.t.Helper()
	s := ts.connect("/ws/session")
	s.send(object{"type": "session_start", "langs": langs, "tts": true})
	s.readUntil("session_started")
	s.sendBinary(bytes.Repeat([]byte{1, 40}, 1600))
	s.send(object{"type": "audio_chunk", "is_final": true})
	return s
}

func formatOf(m map[string]any) wire.AudioFormat {
	a, _ := m["tts_audio"].(map[string]any)
	if a == nil {
		return wire.AudioFormat{}
	}
	return wire.AudioFormat{Encoding: a["encoding"].(string), SampleRate: int(a["sample_rate"].(float64)), Channels: int(a["channels"].(float64))}
}

// TestSpeechFormatInFrames: the result and the first frame have the format of the speech, wherever the node gave it.
func TestSpeechFormatInFrames(t *testing.T) {
	t.Parallel()
	opus := wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 1}
	for name, c := range map[string]struct {
		result any // tts_audio
		header *wire.AudioFormat
		want   wire.AudioFormat
		chunks [][]byte
	}{
		"not at all":             {nil, nil, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1}, [][]byte{{1, 2}, {3, 4}}},
		"in the result":          {object{"encoding": "wav", "sample_rate": 24_000}, nil, wire.AudioFormat{Encoding: "wav", SampleRate: 24_000, Channels: 1}, [][]byte{[]byte("RIFF and so on"), []byte("more")}},
		"in part":                {object{"channels": 2}, nil, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 2}, [][]byte{{1, 2, 3, 4}}},
		"in both":                {object{"encoding": "opus", "sample_rate": 48_000}, &opus, opus, opusPackets(3)},
		"with an empty last one": {object{"encoding": "opus", "sample_rate": 48_000}, nil, opus, append(opusPackets(2), []byte{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			n, s := ts.connectNode("n1"), ts.startSpeechSession("en", "es")
			job := n.readUntil("job_assign")["job_id"].(string)
			n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}, "tts": true}.with(object{"tts_audio": c.result}))
			for i, data := range c.chunks {
				var header *wire.AudioFormat
				if i == 0 {
					header = c.header
				}
				n.sendSpeech(job, i, i == len(c.chunks)-1, header, data)
			}
			if m := s.readUntil("result"); m["tts"] != "follows" || formatOf(m) != c.want {
				t.Errorf("the format in the result is %v", m["tts_audio"])
			}
			format, chunks := s.readSpeech()
			if format != c.want {
				t.Errorf("the format in the first frame is %+v", format)
			}
			if diff := cmp.Diff(c.chunks, chunks); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSpeechOfWrongFormatIsRefused: speech that does not match its format is refused, and the session gets the warning SPEECH_LOST.
func TestSpeechOfWrongFormatIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result any
		header *wire.AudioFormat
		data   []byte
		field  string
	}{
		"another format than the result's": {object{"encoding": "wav"}, &wire.AudioFormat{Encoding: "opus"}, []byte("RIFF"), "audio"},
		"another than the default":         {nil, &wire.AudioFormat{SampleRate: 24_000}, []byte("ab"), "audio"},
		"an unknown encoding":              {nil, &wire.AudioFormat{Encoding: "mp3"}, []byte("ab"), "audio.encoding"},
		"no WAV":                           {object{"encoding": "wav"}, nil, []byte("ab"), "audio"},
		"no packet":                        {object{"encoding": "opus"}, nil, []byte("OggS and so on"), "audio"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			n, s := ts.connectNode("n1"), ts.startSpeechSession("en", "es")
			job := n.readUntil("job_assign")["job_id"].(string)
			n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}, "tts": true}.with(object{"tts_audio": c.result}))
			n.readUntil("job_result_ack")
			s.readUntil("result")
			n.sendSpeech(job, 0, false, c.header, c.data)
			if m := n.readUntil("error"); m["error"] != string(wire.InvalidRequest) || m["field"] != c.field || m["fatal"] == true {
				t.Errorf("%v", m)
			}
			if m := s.readUntil("warning"); m["code"] != "SPEECH_LOST" {
				t.Errorf("%v", m)
			}
			n.sendSpeech(job, 1, true, nil, c.data)
			if m := n.readUntil("error"); m["error"] != string(wire.NotHolder) {
				t.Errorf("a further chunk: %v", m)
			}
			s.send(object{"type": "session_end"})
			s.readUntil("session_ended")
		})
	}
}

// TestResultWithInvalidSpeechFormat: a result with an invalid speech format fails the attempt, because a repeat would be refused
// too.
func TestResultWithInvalidSpeechFormat(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]any{
		"encoding": object{"encoding": "mp3"}, "rate": object{"sample_rate": 7}, "channels": object{"channels": 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ts := startScheduler(t)
			n := ts.connectNode("n1")
			ts.startSpeechSession("en", "es")
			job := n.readUntil("job_assign")["job_id"].(string)
			n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
			n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": object{"text_tgt": "hola"}, "tts": true, "tts_audio": bad})
			if m := n.readUntil("job_result_ack"); m["accepted"] == true || m["error"] != string(wire.InvalidRequest) {
				t.Errorf("%v", m)
			}
		})
	}
	ts := startScheduler(t)
	n := ts.registerNode("h1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
	ts.startSpeechSession("en", "zh")
	d, _ := ts.nextDelivery()
	n.ack(d, nil).expectOK()
	for field, result := range map[string]object{
		"result.tts_audio":             {"tts": true, "tts_audio": "wav"},
		"result.tts_audio.sample_rate": {"tts": true, "tts_audio": object{"sample_rate": 96_000}},
	} {
		if e := n.done(d, object{"result": result}); e.status != http.StatusBadRequest || !bytes.Contains(e.body, []byte(`"field":"`+field+`"`)) {
			t.Errorf("%d %s", e.status, e.body)
		}
	}
}

// wavFile makes a WAV file with a header.
func wavFile(rate, channels int, data []byte) []byte {
	b := append([]byte("RIFF"), 0, 0, 0, 0)
	b = append(b, "WAVEfmt \x10\x00\x00\x00\x01\x00"...)
	b = binary.LittleEndian.AppendUint16(b, uint16(channels))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate*channels*2))
	b = append(b, byte(2*channels), 0, 16, 0)
	return append(append(b, "data\xff\xff\xff\xff"...), data...)
}

// TestUploadedSpeechFormat: the format of uploaded speech comes from its headers or from the file; the result and the first frame
// have it. Opus reaches the session packet by packet.
func TestUploadedSpeechFormat(t *testing.T) {
	t.Parallel()
	packets := opusPackets(70)
	ogg, err := oggopus.Encode(&oggopus.Stream{Channels: 2, SampleRate: 24_000, Packets: packets}, 1)
	if err != nil {
		t.Fatal(err)
	}
	pcm, wav := []byte("12345678"), wavFile(22_050, 2, []byte("12345678"))
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
	for name, c := range map[string]struct {
		headers map[string]string
		body    []byte
		want    wire.AudioFormat
		chunks  [][]byte
	}{
		"no header":         {nil, pcm, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1}, [][]byte{pcm}},
		"no type of audio":  {map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, pcm, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 16_000, Channels: 1}, [][]byte{pcm}},
		"X-Lingua-Audio":    {map[string]string{wire.AudioHeader: "pcm_s16le; rate=24000; channels=2", "Content-Type": "audio/wav"}, pcm, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 24_000, Channels: 2}, [][]byte{pcm}},
		"audio/pcm":         {map[string]string{"Content-Type": "audio/pcm; rate=48000"}, pcm, wire.AudioFormat{Encoding: "pcm_s16le", SampleRate: 48_000, Channels: 1}, [][]byte{pcm}},
		"audio/wav":         {map[string]string{"Content-Type": "audio/x-wav"}, wav, wire.AudioFormat{Encoding: "wav", SampleRate: 22_050, Channels: 2}, [][]byte{wav}},
		"wav by its header": {map[string]string{wire.AudioHeader: "wav; rate=8000"}, wav, wire.AudioFormat{Encoding: "wav", SampleRate: 22_050, Channels: 2}, [][]byte{wav}},
		"audio/ogg":         {map[string]string{"Content-Type": "audio/ogg; codecs=opus"}, ogg, wire.AudioFormat{Encoding: "opus", SampleRate: 24_000, Channels: 2}, packets},
	} {
		s := ts.startSpeechSession("en", "zh")
		d, _ := ts.nextDelivery()
		n.ack(d, nil).expectOK()
		for range 2 { // the answer to the first may be lost
			if a := ts.fetchURLWith("PUT", d.TTSUpload, c.body, c.headers); a.status != http.StatusOK {
				t.Fatalf("%s: %d %s", name, a.status, a.body)
			}
		}
		n.done(d, object{"result": object{"text_tgt": "好", "tts": true}}).expectOK()
		if m := s.readUntil("result"); m["tts"] != "follows" || formatOf(m) != c.want {
			t.Errorf("%s: the result has %v, %v", name, m["tts"], m["tts_audio"])
		}
		format, chunks := s.readSpeech()
		if diff := cmp.Diff(c.chunks, chunks); format != c.want || diff != "" {
			t.Errorf("%s: %+v (-want +got):\n%s", name, format, diff)
		}
	}
}

// TestInvalidUploadsAreRefused: invalid uploads are refused and change nothing: the next valid one is accepted.
func TestInvalidUploadsAreRefused(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n := ts.registerNode("n1", object{"nmt_pairs": [][]string{{"en", "zh"}}})
	s := ts.startSpeechSession("en", "zh")
	d, _ := ts.nextDelivery()
	n.ack(d, nil).expectOK()
	for name, c := range map[string]struct {
		headers map[string]string
		body    string
		status  int
	}{
		"odd PCM":                {nil, "abc", 400},
		"odd stereo":             {map[string]string{wire.AudioHeader: "pcm_s16le; channels=2"}, "abcdef", 400},
		"WAV without a header":   {map[string]string{"Content-Type": "audio/wav"}, "abcd", 400},
		"WAV of a strange rate":  {map[string]string{"Content-Type": "audio/wav"}, string(wavFile(192_000, 2, nil)), 400},
		"Opus without container": {map[string]string{wire.AudioHeader: "opus"}, "abcd", 400},
		"truncated Ogg":          {map[string]string{"Content-Type": "audio/ogg"}, "OggS", 400},
		"MP3":                    {map[string]string{"Content-Type": "audio/mpeg"}, "abcd", 415},
		"another byte order":     {map[string]string{"Content-Type": "audio/L16; rate=16000"}, "abcd", 415},
		"another encoding":       {map[string]string{wire.AudioHeader: "mp3; rate=16000"}, "abcd", 400},
		"an invalid header":      {map[string]string{wire.AudioHeader: ";;"}, "abcd", 400},
		"an invalid rate":        {map[string]string{wire.AudioHeader: "pcm_s16le; rate=-1"}, "abcd", 400},
		"invalid channels":       {map[string]string{"Content-Type": "audio/pcm; channels=many"}, "abcd", 400},
	} {
		a := ts.fetchURLWith("PUT", d.TTSUpload, []byte(c.body), c.headers)
		if a.status != c.status || !bytes.Contains(a.body, []byte(`"detail"`)) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := ts.fetchURLWith("PUT", d.TTSUpload, []byte("abcd"), nil); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	n.done(d, object{"result": object{"text_tgt": "好", "tts": true}}).expectOK()
	if m := s.readUntil("result"); m["tts"] != "follows" {
		t.Errorf("%v", m)
	}
}

// TestNullResultWithSpeech: a result that is null may announce speech.
func TestNullResultWithSpeech(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t)
	n, s := ts.connectNode("n1"), ts.startSpeechSession("en", "es")
	job := n.readUntil("job_assign")["job_id"].(string)
	n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})
	n.send(object{"type": "job_result", "job_id": job, "attempt_id": 1, "result": null, "tts": true})
	if m := n.readUntil("job_result_ack"); m["accepted"] != true {
		t.Errorf("%v", m)
	}
	if m := s.readUntil("result"); m["tts"] != "follows" {
		t.Errorf("%v", m)
	}
}
