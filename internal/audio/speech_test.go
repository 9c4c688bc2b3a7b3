package audio_test

import (
	"bytes"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

var (
	defaultFormat = wire.AudioFormat{Encoding: wire.EncodingPCM, SampleRate: 16_000, Channels: 1}
	opusFormat    = wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 24_000, Channels: 2}
)

// oggFile is an Ogg Opus file of some packets.
func oggFile(t *testing.T, packets [][]byte, rate int) []byte {
	t.Helper()
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 2, SampleRate: rate, Packets: packets}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSpeechFormatDefaults(t *testing.T) {
	t.Parallel()
	if f, e := audio.SpeechFormat("tts_audio", nil); e != nil || f != defaultFormat {
		t.Errorf("no format is %+v, %v", f, e)
	}
	if f, e := audio.SpeechFormat("tts_audio", &wire.AudioFormat{Encoding: "wav"}); e != nil || f.SampleRate != 16_000 {
		t.Errorf("wav is %+v, %v", f, e)
	}
	if _, e := audio.SpeechFormat("tts_audio", &wire.AudioFormat{Channels: 3}); e == nil || e.Field != "tts_audio.channels" {
		t.Errorf("three channels: %v", e)
	}
}

func TestCheckSpeech(t *testing.T) {
	t.Parallel()
	wav := wire.AudioFormat{Encoding: wire.EncodingWAV, SampleRate: 16_000, Channels: 1}
	for name, c := range map[string]struct {
		header wire.BinaryHeader
		format wire.AudioFormat
		data   []byte
		valid  bool
	}{
		"pcm":                          {wire.BinaryHeader{}, defaultFormat, []byte{1, 2}, true},
		"the declared format":          {wire.BinaryHeader{Audio: &wire.AudioFormat{}}, defaultFormat, []byte{1, 2}, true},
		"another format":               {wire.BinaryHeader{Audio: &opusFormat}, defaultFormat, []byte{1, 2}, false},
		"an invalid format":            {wire.BinaryHeader{Audio: &wire.AudioFormat{Encoding: "mp3"}}, defaultFormat, []byte{1, 2}, false},
		"a format in a later chunk":    {wire.BinaryHeader{Chunk: 1, Audio: &opusFormat}, defaultFormat, []byte{1, 2}, true},
		"an empty last chunk":          {wire.BinaryHeader{Chunk: 3, Last: true}, opusFormat, nil, true},
		"an opus packet":               {wire.BinaryHeader{}, opusFormat, opusPackets(1)[0], true},
		"no opus packet":               {wire.BinaryHeader{}, opusFormat, []byte{0x1b, 63}, false},
		"wav":                          {wire.BinaryHeader{}, wav, wavHeader(1, 16_000), true},
		"wav without a header":         {wire.BinaryHeader{}, wav, []byte{1, 2}, false},
		"wav, a chunk after its first": {wire.BinaryHeader{Chunk: 1}, wav, []byte{1, 2}, true},
	} {
		if e := audio.CheckSpeech(&c.header, c.format, c.data); (e == nil) != c.valid {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestParseUpload(t *testing.T) {
	t.Parallel()
	packets := opusPackets(4)
	long := bytes.Repeat([]byte{1, 2}, wire.SpeechChunk)
	for name, c := range map[string]struct {
		header http.Header
		body   []byte
		format wire.AudioFormat
		chunks [][]byte
	}{
		"no headers":              {nil, []byte{1, 2}, defaultFormat, [][]byte{{1, 2}}},
		"an empty body":           {nil, nil, defaultFormat, [][]byte{{}}},
		"a long body":             {nil, long, defaultFormat, [][]byte{long[:wire.SpeechChunk], long[wire.SpeechChunk:]}},
		"a type that is no audio": {http.Header{"Content-Type": {"application/octet-stream"}}, []byte{1, 2}, defaultFormat, [][]byte{{1, 2}}},
		"pcm by its media type": {
			http.Header{"Content-Type": {"audio/pcm; rate=8000; channels=2"}}, []byte{1, 2, 3, 4},
			wire.AudioFormat{Encoding: wire.EncodingPCM, SampleRate: 8_000, Channels: 2}, [][]byte{{1, 2, 3, 4}},
		},
		"pcm by the audio header, which has precedence": {
			http.Header{"Content-Type": {"audio/wav"}, wire.AudioHeader: {"pcm_s16le; rate=24000"}}, []byte{1, 2},
			wire.AudioFormat{Encoding: wire.EncodingPCM, SampleRate: 24_000, Channels: 1}, [][]byte{{1, 2}},
		},
		"wav, whose header has precedence": {
			http.Header{"Content-Type": {"audio/x-wav"}}, wavHeader(2, 44_100),
			wire.AudioFormat{Encoding: wire.EncodingWAV, SampleRate: 44_100, Channels: 2}, [][]byte{wavHeader(2, 44_100)},
		},
		"opus, one packet in each chunk": {http.Header{"Content-Type": {"audio/ogg; codecs=opus"}}, oggFile(t, packets, 24_000), opusFormat, packets},
		"opus of a rate above the codec's": {
			http.Header{"Content-Type": {"audio/ogg"}}, oggFile(t, packets, 96_000),
			wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 48_000, Channels: 2}, packets,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			format, chunks, e := audio.ParseUpload(c.header, c.body)
			if e != nil {
				t.Fatal(e)
			}
			if diff := cmp.Diff(c.format, format); diff != "" {
				t.Errorf("format (-want +got):\n%s", diff)
			}
			if !slices.EqualFunc(c.chunks, chunks, bytes.Equal) {
				t.Errorf("%d chunks of %d bytes are not the %d that were wanted", len(chunks), len(bytes.Join(chunks, nil)), len(c.chunks))
			}
		})
	}
}

func TestParseUploadRefuses(t *testing.T) {
	t.Parallel()
	named := func(value string) http.Header { return http.Header{wire.AudioHeader: {value}} }
	typed := func(value string) http.Header { return http.Header{"Content-Type": {value}} }
	for name, c := range map[string]struct {
		header http.Header
		body   []byte
		code   wire.Code
	}{
		"half a sample":              {nil, []byte{1}, wire.InvalidRequest},
		"half a stereo sample":       {named("pcm_s16le; channels=2"), []byte{1, 2}, wire.InvalidRequest},
		"an unreadable audio header": {named(";;"), nil, wire.InvalidRequest},
		"an unknown encoding":        {named("mp3"), nil, wire.InvalidRequest},
		"a rate that is no number":   {named("pcm_s16le; rate=fast"), nil, wire.InvalidRequest},
		"a negative rate":            {named("pcm_s16le; rate=-1"), nil, wire.InvalidRequest},
		"a rate out of bounds":       {named("pcm_s16le; rate=96000"), nil, wire.InvalidRequest},
		"too many channels":          {typed("audio/pcm; channels=6"), nil, wire.InvalidRequest},
		"another audio type":         {typed("audio/mpeg"), nil, wire.UnsupportedMediaType},
		"wav without a header":       {typed("audio/wav"), make([]byte, 44), wire.InvalidRequest},
		"wav with a bad rate":        {typed("audio/wav"), wavHeader(1, 1), wire.InvalidRequest},
		"opus without a container":   {typed("audio/opus"), opusPackets(1)[0], wire.InvalidRequest},
		"an incomplete Ogg file":     {typed("audio/ogg"), oggFile(t, opusPackets(4), 16_000)[:60], wire.InvalidRequest},
	} {
		if _, _, e := audio.ParseUpload(c.header, c.body); e == nil || e.Code != c.code {
			t.Errorf("%s: %v, want %s", name, e, c.code)
		}
	}
}

// FuzzParseUpload checks that an upload is refused, or becomes frames of a valid format that can be sent.
func FuzzParseUpload(f *testing.F) {
	file, err := oggopus.Encode(&oggopus.Stream{Channels: 1, SampleRate: 16_000, Packets: opusPackets(3)}, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("", "audio/ogg", file)
	f.Add("", "audio/wav", wavHeader(1, 16_000))
	f.Add("pcm_s16le; rate=8000; channels=2", "", []byte{1, 2, 3, 4})
	f.Add("opus", "text/plain", []byte("OggS"))
	f.Fuzz(func(t *testing.T, named, contentType string, body []byte) {
		h := http.Header{}
		h.Set(wire.AudioHeader, named)
		h.Set("Content-Type", contentType)
		format, chunks, e := audio.ParseUpload(h, body)
		if e != nil {
			return
		}
		if e := format.Check("audio"); e != nil || len(chunks) == 0 {
			t.Fatalf("%d chunks of %+v: %v", len(chunks), format, e)
		}
		for i, chunk := range chunks {
			if len(chunk) > wire.SpeechChunk {
				t.Errorf("chunk %d has %d bytes", i, len(chunk))
			}
		}
	})
}
