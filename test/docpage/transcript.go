package docpage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Kind is the kind of an entry of a transcript.
type Kind int

// The kinds of entries.
const (
	Text   Kind = iota // a text frame: JSON
	Binary             // a binary frame with a header: JSON
	Audio              // numbered audio frames of a session
	Close              // the close of the connection
	Note               // what happened beside the frames
)

// Entry is one line of a transcript.
type Entry struct {
	Line  int // in the page, counted from 1
	Kind  Kind
	Sent  bool   // by the node or the client; otherwise by the scheduler
	JSON  []byte // of a text frame, or the header of a binary frame
	First int64  // the number of the first audio frame
	Last  int64  // the number of the last one
	Bytes int    // of audio, in each frame
	Code  int    // of a close
	Note  string
}

// The beginnings of lines.
const (
	sentMark     = "→ "
	receivedMark = "← "
	noteMark     = "-- "
)

// transcriptWord precedes the name of a transcript in the info string of its block.
const transcriptWord = "transcript "

// TranscriptInfo is the info string of the block with a transcript.
func TranscriptInfo(name string) string { return "text " + transcriptWord + name }

// TranscriptName is the name of the transcript in a block; empty if it contains none.
func (b *Block) TranscriptName() string {
	name, found := strings.CutPrefix(b.About(), transcriptWord)
	if !found {
		return ""
	}
	return name
}

// Transcript parses the transcript in a block.
func (b *Block) Transcript() ([]Entry, error) {
	var entries []Entry
	var lines []string
	number, start := b.Line-1, b.Line
	flush := func() error {
		if len(lines) == 0 {
			return nil
		}
		e, err := parseEntry(strings.Join(lines, " "))
		if err != nil {
			return fmt.Errorf("%s:%d: %w", b.Page, start, err)
		}
		e.Line = start
		entries, lines = append(entries, e), nil
		return nil
	}
	for line := range strings.Lines(b.Body) {
		number++
		continued := strings.HasPrefix(line, " ")
		if line = strings.TrimSpace(line); !continued {
			if err := flush(); err != nil {
				return nil, err
			}
			start = number
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return entries, flush()
}

func parseEntry(line string) (Entry, error) {
	if note, ok := strings.CutPrefix(line, noteMark); ok {
		return Entry{Kind: Note, Note: note}, nil
	}
	rest, sent := strings.CutPrefix(line, sentMark)
	if !sent {
		var received bool
		if rest, received = strings.CutPrefix(line, receivedMark); !received {
			return Entry{}, fmt.Errorf("%q begins with none of %q, %q and %q", line, sentMark, receivedMark, noteMark)
		}
	}
	e := Entry{Sent: sent}
	switch word, more, _ := strings.Cut(rest, " "); word {
	case "close":
		code, err := strconv.Atoi(more)
		e.Kind, e.Code = Close, code
		return e, err
	case "binary":
		header, size, found := cutLast(more, " + ")
		e.Kind, e.JSON = Binary, []byte(header)
		if !found || !json.Valid(e.JSON) {
			return e, fmt.Errorf("a binary frame is written as: binary HEADER + N bytes; this is %q", rest)
		}
		_, err := fmt.Sscanf(size, "%d bytes", &e.Bytes)
		return e, err
	case "audio":
		e.Kind = Audio
		if strings.Contains(more, " to ") {
			_, err := fmt.Sscanf(more, "%d to %d + %d bytes each", &e.First, &e.Last, &e.Bytes)
			return e, err
		}
		_, err := fmt.Sscanf(more, "%d + %d bytes", &e.First, &e.Bytes)
		e.Last = e.First
		return e, err
	}
	if e.JSON = []byte(rest); !json.Valid(e.JSON) {
		return e, fmt.Errorf("%q is not JSON", rest)
	}
	return e, nil
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// FormatTranscript writes a transcript as the body of a block. Consecutive audio frames of the same size are one line.
func FormatTranscript(entries []Entry) string {
	var out strings.Builder
	for i := 0; i < len(entries); i++ {
		e := entries[i]
		for e.Kind == Audio && i+1 < len(entries) && entries[i+1].Kind == Audio && entries[i+1].Sent == e.Sent &&
			entries[i+1].First == e.Last+1 && entries[i+1].Bytes == e.Bytes {
			i++
			e.Last = entries[i].Last
		}
		out.WriteString(formatEntry(&e))
		out.WriteByte('\n')
	}
	return out.String()
}

func formatEntry(e *Entry) string {
	mark := receivedMark
	if e.Sent {
		mark = sentMark
	}
	switch e.Kind {
	case Note:
		return noteMark + e.Note
	case Close:
		return mark + "close " + strconv.Itoa(e.Code)
	case Audio:
		if e.First == e.Last {
			return fmt.Sprintf("%saudio %d + %d bytes", mark, e.First, e.Bytes)
		}
		return fmt.Sprintf("%saudio %d to %d + %d bytes each", mark, e.First, e.Last, e.Bytes)
	case Binary:
		return wrap(fmt.Sprintf("%sbinary %s + %d bytes", mark, SpaceJSON(e.JSON), e.Bytes))
	}
	return wrap(mark + SpaceJSON(e.JSON))
}

// SpaceJSON writes JSON on one line, with a space after each comma and colon.
func SpaceJSON(text []byte) string {
	var plain bytes.Buffer
	if json.Compact(&plain, text) != nil {
		return string(text)
	}
	var out strings.Builder
	quoted, escaped := false, false
	for _, c := range plain.Bytes() {
		out.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ':'):
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// maxColumns is the length at which a line of a transcript is wrapped, and continuation what the rest of it begins with.
const (
	maxColumns   = 110
	continuation = "   "
)

// wrap breaks a line after commas. A string that is longer than a line is not broken.
func wrap(line string) string {
	var out strings.Builder
	column, first := 0, true
	for _, part := range splitAfterCommas(line) {
		width := len([]rune(part))
		if !first && column+width > maxColumns {
			out.WriteString("\n" + continuation)
			column = len(continuation)
			part = strings.TrimLeft(part, " ")
		}
		out.WriteString(part)
		column, first = column+width, false
	}
	lines := strings.Split(out.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// splitAfterCommas splits a line after every comma that is not within a string of JSON.
func splitAfterCommas(line string) []string {
	var parts []string
	quoted, escaped, start := false, false, 0
	for i := range len(line) {
		switch c := line[i]; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && c == ',' && i+1 < len(line) && line[i+1] == ' ':
			parts = append(parts, line[start:i+2])
			start = i + 2
		}
	}
	return append(parts, line[start:])
}
