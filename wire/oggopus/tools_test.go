package oggopus_test

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// runTool runs a program of Debian's opus-tools and returns its output.
func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(name + " is not on PATH: `make test` installs it, or install opus-tools yourself")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// sweep returns 16-bit PCM of a tone with a changing frequency.
func sweep(samples, channels, rate int) []byte {
	var pcm []byte
	for i := range samples {
		at := float64(i) / float64(rate)
		for c := range channels {
			v := 12_000 * math.Sin(2*math.Pi*(300+200*at+100*float64(c))*at)
			pcm = binary.LittleEndian.AppendUint16(pcm, uint16(int16(v)))
		}
	}
	return pcm
}

// opusinfo accepts an encoded file without a warning, and opusdec decodes it to the same audio as the file of opusenc.
func TestOpusToolsAcceptEncodedFiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it needs opus-tools")
	}
	for name, c := range map[string]struct {
		seconds, channels, rate int
		frame                   string
	}{
		"mono":               {3, 1, 16_000, "20"},
		"stereo":             {2, 2, 48_000, "60"},
		"short packets":      {2, 1, 24_000, "2.5"},
		"longer than 1 page": {30, 2, 48_000, "10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			if err := os.WriteFile(at("in.raw"), sweep(c.seconds*c.rate, c.channels, c.rate), 0o600); err != nil {
				t.Fatal(err)
			}
			runTool(t, "opusenc", "--quiet", "--raw", "--raw-rate", strconv.Itoa(c.rate), "--raw-chan", strconv.Itoa(c.channels), "--framesize", c.frame,
				"--comment", "long="+strings.Repeat("x", 70_000), at("in.raw"), at("theirs.opus"))
			theirs, err := os.ReadFile(at("theirs.opus"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := oggopus.Decode(theirs)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := oggopus.Encode(s, 0xdecafbad)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at("ours.opus"), ours, 0o600); err != nil {
				t.Fatal(err)
			}
			info := runTool(t, "opusinfo", at("ours.opus"))
			t.Log(info)
			if strings.Contains(strings.ToLower(info), "warning") || !strings.Contains(info, "Pre-skip: 312\n") ||
				!strings.Contains(info, "Original sample rate: "+strconv.Itoa(c.rate)+" Hz") {
				t.Error("opusinfo reports a warning or other properties")
			}
			if got, want := parseLength(t, info), duration(s)-312*time.Second/oggopus.Rate; (got - want).Abs() > 2*time.Millisecond {
				t.Errorf("opusinfo reports a length of %v, want %v", got, want)
			}
			for _, file := range []string{"ours", "theirs"} {
				runTool(t, "opusdec", "--quiet", "--no-dither", "--rate", "48000", at(file+".opus"), at(file+".wav"))
			}
			got, want := samplesOf(t, at("ours.wav")), samplesOf(t, at("theirs.wav"))
			// opusenc trims the end to the samples of its input, Encode does not.
			if len(got) < len(want) || len(got)-len(want) > 2*c.channels*oggopus.Rate*120/1000 || string(got[:len(want)]) != string(want) {
				t.Errorf("%d bytes of audio, want the same %d at their beginning", len(got), len(want))
			}
		})
	}
}

// parseLength reads the length of a stream from the output of opusinfo.
func parseLength(t *testing.T, info string) time.Duration {
	t.Helper()
	_, after, _ := strings.Cut(info, "Playback length: ")
	text, _, _ := strings.Cut(after, "\n")
	d, err := time.ParseDuration(strings.Replace(text, ":", "", 1))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// duration returns the duration of all packets of a stream.
func duration(s *oggopus.Stream) (d time.Duration) {
	for _, packet := range s.Packets {
		n, _ := oggopus.Samples(packet)
		d += time.Duration(n) * time.Second / oggopus.Rate
	}
	return d
}

func samplesOf(t *testing.T, wav string) []byte {
	t.Helper()
	b, err := os.ReadFile(wav)
	if err != nil {
		t.Fatal(err)
	}
	_, data, ok := strings.Cut(string(b), "data")
	if !ok || len(data) < 4 {
		t.Fatalf("%s has no data", wav)
	}
	return []byte(data[4:])
}
