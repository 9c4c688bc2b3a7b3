package telemetry

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoggerErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, level, format string
		want                []string // parts of the error
	}{
		{"unknown level", "loud", "text", []string{"level", `"loud"`, "debug", "info", "warn", "error"}},
		{"no level", "", "text", []string{"level", `""`}},
		{"level of another library", "trace", "json", []string{"level", `"trace"`}},
		{"number for a level", "3", "json", []string{"level", `"3"`}},
		{"unknown format", "info", "xml", []string{"format", `"xml"`, "text", "json"}},
		{"no format", "info", "", []string{"format", `""`}},
		{"format in capitals", "info", "JSON", []string{"format", `"JSON"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, err := Logger(&bytes.Buffer{}, c.level, c.format)
			if err == nil || l != nil {
				t.Fatalf("got %v, %v, want an error and no logger", l, err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error %q does not contain %s", err, part)
				}
			}
		})
	}
}

func TestLoggerLevels(t *testing.T) {
	t.Parallel()
	for level, want := range map[string][]string{
		"debug": {"DEBUG", "INFO", "WARN", "ERROR"},
		"info":  {"INFO", "WARN", "ERROR"},
		"warn":  {"WARN", "ERROR"},
		"error": {"ERROR"},
		"Info":  {"INFO", "WARN", "ERROR"},
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			l, err := Logger(&out, level, "json")
			if err != nil {
				t.Fatal(err)
			}
			l.Debug("m")
			l.Info("m")
			l.Warn("m")
			l.Error("m")
			var got []string
			for dec := json.NewDecoder(&out); dec.More(); {
				var line struct{ Level string }
				if err := dec.Decode(&line); err != nil {
					t.Fatal(err)
				}
				got = append(got, line.Level)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("levels that are logged (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLoggerWritesOneLinePerRecord checks that a line break in an attribute does not make a second line, in both formats.
func TestLoggerWritesOneLinePerRecord(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"text": `level=INFO msg="job ended" job_id=job-1 reason="a\nlevel=ERROR"` + "\n",
		"json": `"level":"INFO","msg":"job ended","job_id":"job-1","reason":"a\nlevel=ERROR"}` + "\n",
	} {
		var out bytes.Buffer
		l, err := Logger(&out, "info", format)
		if err != nil {
			t.Fatal(err)
		}
		l.Info("job ended", "job_id", "job-1", "reason", "a\nlevel=ERROR")
		if got := out.String(); !strings.HasSuffix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: got %q, want one line that ends in %q", format, got, want)
		}
	}
}
