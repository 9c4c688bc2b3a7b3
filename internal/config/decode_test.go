package config

import (
	"strings"
	"testing"
)

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []string // what the error has to show
	}{
		{"unknown key", "store = \"memory\"\nstroe = 1\n", []string{"unknown key", "lingua config reference", "2| stroe = 1", "\n | ~~~~~ "}},
		{"unknown key in a table", "[server]\nport = 1\nprot = 2\n", []string{"unknown key", "3| prot = 2", "\n | ~~~~ "}},
		{"two unknown keys", "[server]\nprot = 1\nhots = 2\n", []string{"2| prot = 1\n | ~~~~ ", "3| hots = 2\n | ~~~~ "}},
		{"unknown table", "[sever]\nport = 1\n", []string{"unknown key", "1| [sever]", "\n |  ~~~~~ "}},
		{"key in the wrong table", "port = 1\n", []string{"unknown key", "1| port = 1", "\n | ~~~~ "}},
		{"unknown dotted key", "server.prot = 1\n", []string{"unknown key", "1| server.prot = 1", "~"}},
		{"wrong type", "[server]\nport = \"http\"\n", []string{"not as it should be", "2| port = \"http\"", "\n |        ~~~~~~ "}},
		{"duration with a unit", "[scheduler.dispatch]\nack_timeout_ms = \"2s\"\n", []string{"2| ack_timeout_ms = \"2s\"", "~~~~"}},
		{"broken number for a duration", "[scheduler.dispatch]\nack_timeout_ms = 1.5\n", []string{"2| ack_timeout_ms = 1.5", "~~~"}},
		{"number too large", "[scheduler.dispatch]\njob_timeout_ms = 99999999999999999999\n", []string{"2| job_timeout_ms", "~~~"}},
		{"one value for a list", "[callback]\nallowed_targets = \"10.0.0.0/8\"\n", []string{"2| allowed_targets", "~~~"}},
		{"value for a table", "server = 1\n", []string{"1| server = 1", "~"}},
		{"not TOML", "[server\n", []string{"not as it should be", "1| [server", "~"}},
		{"same key twice", "[server]\nport = 1\nport = 2\n", []string{"3| port = 2", "~~~~"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := Default()
			err := Decode([]byte(c.text), &config)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not show %q:\n%v", part, err)
				}
			}
		})
	}
}

// FuzzDecode holds that no file, however broken, stops the program in any other way than with a message; and
// that whatever can be read can be judged.
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
		if err := Decode(text, &c); err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("an error without a word")
			}
			return
		}
		for _, p := range problems(c.Validate()) {
			if p == "" {
				t.Fatal("a problem without a word")
			}
		}
	})
}
