package wire

import (
	"strings"
	"testing"
)

func TestTraceparent(t *testing.T) {
	t.Parallel()
	const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c, ok := ParseTraceparent(text)
	if !ok || !c.Sampled || c.Traceparent() != text {
		t.Errorf("%s is read as %v, %v", text, c.Traceparent(), ok)
	}
	for text, sampled := range map[string]bool{
		strings.TrimSuffix(text, "1") + "0":              false,
		strings.TrimSuffix(text, "01") + "ff":            true,
		strings.TrimSuffix(text, "01") + "02":            false,
		"cc" + text[2:]:                                  true, // a later version
		"cc" + text[2:] + "-" + strings.Repeat("x", 400): true,
	} {
		if c, ok := ParseTraceparent(text); !ok || c.Sampled != sampled {
			t.Errorf("%s: sampled %v, %v", text, c.Sampled, ok)
		}
	}
}

func TestInvalidTraceparent(t *testing.T) {
	t.Parallel()
	const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, text := range map[string]string{
		"empty":                     "",
		"too short":                 valid[:54],
		"longer in version 00":      valid + "-x",
		"longer without a dash":     "01" + valid[2:] + "x",
		"too long":                  "01" + valid[2:] + "-" + strings.Repeat("x", 512),
		"version ff":                "ff" + valid[2:],
		"upper case":                strings.ToUpper(valid),
		"not hexadecimal":           strings.Replace(valid, "a", "g", 1),
		"zero trace":                "00-" + strings.Repeat("0", 32) + valid[35:],
		"zero span":                 valid[:36] + strings.Repeat("0", 16) + "-01",
		"another separator":         strings.Replace(valid, "-", "_", 1),
		"the second separator":      valid[:35] + "_" + valid[36:],
		"the third separator":       valid[:52] + "_" + valid[53:],
		"a space":                   " " + valid[1:],
		"characters of other texts": strings.Repeat("é", 28)[:55],
	} {
		if c, ok := ParseTraceparent(text); ok || c != (TraceContext{}) {
			t.Errorf("%s: %q is accepted as %v", name, text, c)
		}
	}
}

// FuzzTraceparent checks that a context that is read can be written, and is read as the same.
func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := ParseTraceparent(text)
		if !ok {
			return
		}
		if again, ok := ParseTraceparent(c.Traceparent()); !ok || again != c {
			t.Errorf("%q is %v, and then %v", text, c, again)
		}
	})
}
