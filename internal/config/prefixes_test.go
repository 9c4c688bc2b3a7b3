package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrefixes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		targets []string
		want    []string
	}{
		{"none", nil, []string{}},
		{"the defaults", Default().Callback.AllowedTargets, []string{"127.0.0.0/8", "::1/128"}},
		{"bits beyond the prefix are dropped", []string{"10.1.2.3/8", "fd00::1/8"}, []string{"10.0.0.0/8", "fd00::/8"}},
		{"one address", []string{"192.168.1.7/32"}, []string{"192.168.1.7/32"}},
		{"everything", []string{"0.0.0.0/0", "::/0"}, []string{"0.0.0.0/0", "::/0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			prefixes, err := (&Callback{AllowedTargets: c.targets}).Prefixes()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]string, len(prefixes))
			for i, p := range prefixes {
				got[i] = p.String()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("prefixes (-want +got):\n%s", diff)
			}
		})
	}
}

// One bad entry refuses the list: leaving it out could open or close more than was meant.
func TestPrefixesErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.0/33", "::1/129", "10.0.0.0/-1", "10.0.0.0/", "/8", "localhost/8", "10.0.0/8", " 10.0.0.0/8", "fe80::1%eth0/64"} {
		prefixes, err := (&Callback{AllowedTargets: []string{"127.0.0.0/8", bad}}).Prefixes()
		if err == nil || prefixes != nil {
			t.Errorf("%q: got %v, %v, want an error and nothing else", bad, prefixes, err)
			continue
		}
		for _, part := range []string{"callback.allowed_targets: ", `"` + bad + `"`, "such as 10.0.0.0/8"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error %q does not say %q", bad, err, part)
			}
		}
	}
}
