//go:build !race

// One goroutine parses the commands, and the race detector makes it ten times slower.

package main

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lingua-scheduler/lingua/test/docpage"
)

// linguaCommand finds the arguments of lingua in a command line, which may be a part of another one.
var linguaCommand = regexp.MustCompile(`(?:^|exec )lingua( [^|)<]*|$)`)

// TestCommandsInDocs parses every command line of lingua in docs, in blocks and within sentences.
func TestCommandsInDocs(t *testing.T) {
	t.Parallel()
	pages, err := docpage.Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen, parsed := 0, make(map[string]error) // the same lines are in many places
	parse := func(line string) error {
		err, known := parsed[line]
		if !known {
			err = parseCommand(t, docpage.Words(line))
			parsed[line] = err
		}
		return err
	}
	for _, page := range pages {
		for _, b := range page.Blocks() {
			for _, line := range b.Commands() {
				if m := linguaCommand.FindStringSubmatch(line); m != nil {
					seen++
					if err := parse(m[1]); err != nil {
						t.Errorf("%s:%d: %s: %v", b.Page, b.Line, line, err)
					}
				}
			}
		}
		for _, s := range page.Spans() {
			if !strings.HasPrefix(s.Text, "lingua ") {
				continue
			}
			seen++
			line := strings.TrimPrefix(s.Text, "lingua ")
			if err := parse(line); err != nil && !isCommand(t, docpage.Words(line)) {
				t.Errorf("%s:%d: %s: %v", s.Page, s.Line, s.Text, err)
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d commands were found", seen)
	}
}

func newTestParser(t *testing.T) *kong.Kong {
	t.Helper()
	parser, err := newParser(t.Context(), &cli{}, streams{out: io.Discard, err: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return parser
}

// parseCommand parses a command line without running it.
func parseCommand(t *testing.T, args []string) error {
	t.Helper()
	_, err := newTestParser(t).Parse(args)
	return err
}

// isCommand reports whether the words are the name of a command, as a sentence may mention it without its arguments.
func isCommand(t *testing.T, words []string) bool {
	t.Helper()
	for _, command := range newTestParser(t).Model.Leaves(true) {
		if command.Path() == strings.Join(words, " ") {
			return true
		}
	}
	return false
}

// TestInvalidCommandsAreDetected checks that the parser refuses what does not exist, so that TestCommandsInDocs proves something.
func TestInvalidCommandsAreDetected(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"nodess", "nodes --nope", "jobs --state lost", "drain", "config check", "dlq"} {
		if parseCommand(t, strings.Fields(line)) == nil {
			t.Errorf("lingua %s is valid", line)
		}
	}
	if isCommand(t, []string{"nodess"}) || !isCommand(t, []string{"talk"}) || !isCommand(t, []string{"config", "check"}) {
		t.Error("the names of commands are not recognised")
	}
}
