package transcripts

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// hexInfo is the info string of a block with the bytes of a binary frame.
func hexInfo(name string) string { return "text bytes " + name }

// maxHexBytes is how much of a frame a page shows, and bytesPerLine how much of it is on a line.
const (
	maxHexBytes  = 128
	bytesPerLine = 16
)

// compareHex compares the first bytes of a recorded frame with those in a page, or writes them there.
func compareHex(t *testing.T, name string, frame []byte) {
	t.Helper()
	compare(t, hexInfo(name), formatHex(frame[:min(len(frame), maxHexBytes)]), canonicalHex)
}

// formatHex writes bytes as lines of offset, hexadecimal bytes and characters.
func formatHex(data []byte) string {
	var out strings.Builder
	for at := 0; at < len(data); at += bytesPerLine {
		line := data[at:min(at+bytesPerLine, len(data))]
		characters := make([]byte, len(line))
		for i, b := range line {
			if characters[i] = b; b < ' ' || b > '~' {
				characters[i] = '.'
			}
		}
		fmt.Fprintf(&out, "%04x  %-47s  |%s|\n", at, fmt.Sprintf("% x", line), characters)
	}
	return out.String()
}

// parseHex reads the bytes of such lines.
func parseHex(body string) ([]byte, error) {
	var data []byte
	for line := range strings.Lines(body) {
		_, line, _ = strings.Cut(line, "  ")
		line, _, _ = strings.Cut(line, "  ")
		b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
		if err != nil {
			return nil, err
		}
		data = append(data, b...)
	}
	return data, nil
}

// canonicalHex returns the lines of a frame without its job id, which differs from run to run.
func canonicalHex(body string) []string {
	frame, err := parseHex(body)
	if err != nil {
		return []string{err.Error()}
	}
	const key = `"job_id":"`
	if before, rest, found := bytes.Cut(frame, []byte(key)); found {
		_, after, _ := bytes.Cut(rest, []byte(`"`))
		frame = bytes.Join([][]byte{before, []byte(key), after}, nil)
	}
	return strings.Split(formatHex(frame), "\n")
}
