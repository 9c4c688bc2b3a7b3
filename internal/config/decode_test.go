package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decodeOver decodes the text of a file over c.
func decodeOver(c *Config, text string) error {
	d := newUnvalidated()
	d.Config = *c
	d.decode("f", []byte(text))
	*c = d.Config
	return errors.Join(d.problems...)
}

// TestDecodeErrors checks the errors of files with unknown keys and values of wrong types.
func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	const unknown = "there is no such key; lingua config reference lists all keys"
	const rest = "; nothing else in the file can be checked before this is corrected"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "store = \"memory\"\nstroe = 1\n", []string{"f: stroe: " + unknown}},
		{"unknown key in a table", "[server]\nport = 1\nprot = 2\n", []string{"f: server.prot: " + unknown}},
		{"two unknown keys", "[server]\nprot = 1\nhots = 2\n", []string{"f: server.hots: " + unknown, "f: server.prot: " + unknown}},
		{"unknown table", "[sever]\nport = 1\n", []string{"f: sever: " + unknown}},
		{"key in the wrong table", "port = 1\n", []string{"f: port: " + unknown}},
		{"key in upper case", "[server]\nPort = 1\n", []string{"f: server.Port: " + unknown}},
		{"unknown dotted key", "server.prot = 1\n", []string{"f: server.prot: " + unknown}},
		{"key that needs quotes", "[server]\n\"a\\nb.c\" = 1\n", []string{`f: server."a\nb.c": ` + unknown}},
		{"text for a number", "[server]\nport = \"http\"\n", []string{`f: server.port: "http" is not a whole number`}},
		{"text for a boolean", "[server]\ninsecure = \"yes\"\n", []string{`f: server.insecure: "yes" is not true or false`}},
		{"text for a fraction", "[scheduler.resource_limits]\ncpu_max = \"95%\"\n", []string{`f: scheduler.resource_limits.cpu_max: "95%" is not a number`}},
		{"number for a text", "[server]\nhost = 127\n", []string{"f: server.host: 127 is not a string in quotes"}},
		{"date for a number", "server.port = 1979-05-27\n", []string{"f: server.port: a date or time is not a whole number"}},
		{"duration with a unit", "[scheduler.dispatch]\nack_timeout_ms = \"2s\"\n", []string{`f: scheduler.dispatch.ack_timeout_ms: "2s" is not a whole number of milliseconds`}},
		{"broken number for a duration", "[scheduler.nodes]\nretention_seconds = 1.5\n", []string{"f: scheduler.nodes.retention_seconds: 1.5 is not a whole number of seconds"}},
		{"one value for a list", "[callback]\nallowed_targets = \"10.0.0.0/8\"\n", []string{`f: callback.allowed_targets: "10.0.0.0/8" is not a list such as ["a", "b"]`}},
		{"number in a list", "[callback]\nallowed_targets = [\"10.0.0.0/8\", 10]\n", []string{"f: callback.allowed_targets: 10 is not a string in quotes"}},
		{"list for a value", "[server]\nhost = [\"::1\"]\n", []string{"f: server.host: a list is not a string in quotes"}},
		{"table for a value", "[server.host]\na = 1\n", []string{"f: server.host: a table is not a string in quotes"}},
		{"value for a table", "server = 1\n", []string{"f: server: this is a table, not 1; write [server] and its keys below it"}},
		{"tables for a table", "[[server]]\nport = 1\n", []string{"f: server: this is a table, not a list; write [server] and its keys below it"}},
		{"several kinds", "stroe = 1\n[server]\nport = \"a\"\nhost = 1\nprot = 2\n", []string{
			`f: server.host: 1 is not a string in quotes`, `f: server.port: "a" is not a whole number`, "f: server.prot: " + unknown, "f: stroe: " + unknown,
		}},
		{"not TOML", "store = \"x\"\n[server\n", []string{"f: line 2, column 8: expected ']' to close table name" + rest}},
		{"same key twice", "[server]\nport = 1\nport = 2\n", []string{"f: line 3, column 1: key port is already defined" + rest}},
		{"number too large", "[scheduler.dispatch]\njob_timeout_ms = 99999999999999999999\n", []string{
			"f: line 2, column 18: decimal number is too large to fit in a 64-bit signed integer" + rest,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := Default()
			err := decodeOver(&config, c.text)
			if err == nil {
				t.Fatal("the file was accepted")
			}
			if diff := cmp.Diff(c.want, withoutExcerpts(err)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutExcerpts returns the lines of an error that are not excerpts of the file.
func withoutExcerpts(err error) []string {
	return slices.DeleteFunc(strings.Split(err.Error(), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "  ") && strings.Contains(line, " | ")
	})
}

// TestErrorsShowTheLine checks that an error shows the line with a caret under the key, but never the line of a secret.
func TestErrorsShowTheLine(t *testing.T) {
	t.Parallel()
	text := "store = \"memory\"\n[server]\n\tprot = 5\n  port = \"x\"\nhost = { a = 1 }\n[callback]\nsecret = 12345\n[nodes]\nboth = { secret = \"abc\" }\n"
	config := Default()
	err := decodeOver(&config, text)
	if err == nil {
		t.Fatal("the file was accepted")
	}
	for _, want := range []string{
		"lists all keys\n   3 | \tprot = 5\n     | \t^^^^",
		"whole number\n   4 |   port = \"x\"\n     |   ^^^^",
		"\n   5 | host = { a = 1 }\n     | ^^^^",
		"f: callback.secret: the value is not",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing from:\n%s", want, err)
		}
	}
	for _, secret := range []string{"12345", "abc"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("a secret is shown:\n%s", err)
		}
	}
}

// FuzzDecode checks that a broken file gives errors and no panic, and that every configuration that can be decoded can be
// validated.
func FuzzDecode(f *testing.F) {
	const whole = "store = \"memory\"\n[server]\nport = 1\ninsecure = true\n[callback]\nallowed_targets = [\"::1/128\"]\n" +
		"[scheduler.dispatch]\nsample_k = 20\n[scheduler.resource_limits]\ncpu_max = 0.9\n"
	for _, seed := range []string{
		"", whole, "store = 1", "[server]\nprot = 1", "[server", "[[server]]", "server = {port = 1}", "a.b.c = 1",
		"callback.allowed_targets = [1]", "callback.allowed_targets = [\"::/0\", [], {}]", "scheduler.resource_limits.cpu_max = nan",
		"scheduler.dispatch.sample_k = 0x7fffffffffffffff", "server.port = 1979-05-27T07:32:00Z", "\"\" = 1", "store = '''\n", "\xff", "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := Default()
		if err := decodeOver(&c, string(text)); err != nil {
			for _, line := range withoutExcerpts(err) {
				if !strings.HasPrefix(line, "f: ") || len(line) < len("f: x") {
					t.Fatalf("an incomplete line: %q", line)
				}
			}
		}
		for _, p := range validationErrors(&c) {
			if p == "" {
				t.Fatal("an empty problem")
			}
		}
	})
}
