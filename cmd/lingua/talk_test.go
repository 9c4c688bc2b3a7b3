package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wavFile writes a WAV file with a tone, or with silence, and returns its path.
func wavFile(t *testing.T, ms int, loud bool) string {
	t.Helper()
	pcm := make([]byte, 32*ms)
	for i := range len(pcm) / 2 {
		if loud {
			pcm[2*i+1] = byte(i % 64)
		}
	}
	var b bytes.Buffer
	b.WriteString("RIFF")
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(36+len(pcm))))
	b.WriteString("WAVEfmt ")
	b.Write(binary.LittleEndian.AppendUint32(nil, 16))
	for _, v := range []uint16{1, 1} {
		b.Write(binary.LittleEndian.AppendUint16(nil, v))
	}
	b.Write(binary.LittleEndian.AppendUint32(nil, 16_000))
	b.Write(binary.LittleEndian.AppendUint32(nil, 32_000))
	for _, v := range []uint16{2, 16} {
		b.Write(binary.LittleEndian.AppendUint16(nil, v))
	}
	b.WriteString("data")
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(pcm))))
	b.Write(pcm)
	file := filepath.Join(t.TempDir(), "speech.wav")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTalkExitCodes checks the output and the exit code for each outcome of an utterance.
func TestTalkExitCodes(t *testing.T) {
	t.Parallel()
	url := startDemoFleet(t)
	for name, c := range map[string]struct {
		ms   int
		loud bool
		to   string
		code int
		out  string
		err  string
	}{
		"result":                   {300, true, "es", exitOK, `(?s)\[1\] 0\.3 s, en to es\n.*\[1\] the same in es  \(\d+ ms\)\nutterances: 1, results: 1, errors: 0, speech: 0\.3 s\n$`, `^$`},
		"no node for the language": {300, true, "sw", exitFailed, `(?s)\[1\] no result: No node supports.*errors: 1`, `1 of 1 utterances have no result`},
		"silent file":              {300, false, "es", exitFailed, `utterances: 0`, `no utterance was found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runCommandEnv(t.Context(), nil, "talk", wavFile(t, c.ms, c.loud), "--from", "en", "--to", c.to, "--server", url)
			if got.code != c.code || !regexp.MustCompile(c.out).MatchString(got.out) || !regexp.MustCompile(c.err).MatchString(got.err) {
				t.Errorf("exit %d, want %d\n%s\n%s", got.code, c.code, got.out, got.err)
			}
		})
	}
}

// TestTalkInterrupted checks that an interrupt ends the session and is not reported as an unreachable scheduler.
func TestTalkInterrupted(t *testing.T) {
	t.Parallel()
	url, file := startDemoFleet(t), wavFile(t, 20_000, true)
	ctx, interrupt := context.WithCancel(t.Context())
	var out bytes.Buffer
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		args := []string{"talk", file, "--from", "en", "--to", "es", "--server", url}
		code <- execute(ctx, args, streams{out: &out, err: &errs, environ: []string{}})
	}()
	interrupt()
	if got := <-code; got != exitFailed || !strings.Contains(errs.String(), "interrupted") || strings.Contains(errs.String(), "Start one") {
		t.Errorf("exit %d\n%s", got, errs.String())
	}
}
