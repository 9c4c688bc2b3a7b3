package redisstore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Address{
		"redis://h":                       {Kind: KindStandalone, Hosts: []string{"h:6379"}},
		"redis://h:1/2":                   {Kind: KindStandalone, Hosts: []string{"h:1"}, DB: 2},
		"redis://[::1]":                   {Kind: KindStandalone, Hosts: []string{"[::1]:6379"}},
		"redis://[::1]:5/":                {Kind: KindStandalone, Hosts: []string{"[::1]:5"}},
		"rediss://u:p@h":                  {Kind: KindStandalone, Hosts: []string{"h:6379"}, Username: "u", Password: "p", TLS: true},
		"redis://:p%40ss@h":               {Kind: KindStandalone, Hosts: []string{"h:6379"}, Password: "p@ss"},
		"redis://u:a@b@h":                 {Kind: KindStandalone, Hosts: []string{"h:6379"}, Username: "u", Password: "a@b"},
		"redis-sentinel://a,b:2/main":     {Kind: KindSentinel, Hosts: []string{"a:26379", "b:2"}, Master: "main"},
		"redis-sentinel://a/main/3":       {Kind: KindSentinel, Hosts: []string{"a:26379"}, Master: "main", DB: 3},
		"redis-cluster://a,b,c:7":         {Kind: KindCluster, Hosts: []string{"a:6379", "b:6379", "c:7"}},
		"rediss-cluster://:pw@a:1,b:2/0/": {Kind: KindCluster, Hosts: []string{"a:1", "b:2"}, Password: "pw", TLS: true},
	} {
		got, err := ParseAddress(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "no scheme",
		"localhost:6379":               "no scheme",
		"http://h":                     "not a scheme",
		"redis://":                     "host is missing",
		"redis://a,,b":                 "host is missing",
		"redis://h:port":               "not a port",
		"redis://h:0":                  "not a port",
		"redis://:secret@h:x":          "not a port",
		"redis://h/one":                "not the number of a database",
		"redis://h/-1":                 "not the number of a database",
		"redis://u:%zz@h":              "cannot be read",
		"redis-sentinel://a":           "name of the primary is missing",
		"redis-cluster://a/1":          "only database 0",
		"redis-sentinel://:pass@a/m/x": "not the number of a database",
	} {
		_, err := ParseAddress(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "pass@")) {
			t.Errorf("%s: the error shows a password: %v", text, err)
		}
	}
}

func TestAddressStringHasNoPassword(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rediss://user:pass@h:1/2":       "rediss://h:1/2",
		"redis-sentinel://:pass@a,b/m/1": "redis-sentinel://a:26379,b:26379/m/1",
		"rediss-cluster://:pass@a":       "rediss-cluster://a:6379",
	} {
		a, err := ParseAddress(text)
		if err != nil || a.String() != want {
			t.Errorf("%s is printed as %s, want %s (%v)", text, a, want, err)
		}
	}
}

// FuzzParseAddress: no text causes a panic, and every accepted address has a host.
func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"redis://h", "redis-cluster://a,b", "redis-sentinel://a/m/0", "rediss://u:p@[::1]:1/2", "redis://@", "redis://[", "://"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAddress(text)
		if err == nil && (len(a.Hosts) == 0 || a.Hosts[0] == "" || a.Kind == 0) {
			t.Errorf("%q is accepted as %+v", text, a)
		}
	})
}
