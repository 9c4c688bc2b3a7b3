package nodeconn_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/nodeconn"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

var loopback = prefixes("127.0.0.0/8", "::1/128")

// TestCheckCallbackURL checks which URLs are allowed, and the error of the others.
func TestCheckCallbackURL(t *testing.T) {
	t.Parallel()
	const (
		allowed   = ""
		absolute  = "absolute URL"
		scheme    = "http:// or https://"
		user      = "user name or password"
		fragment  = "fragment"
		forbidden = "callback.allowed_targets"
	)
	for address, want := range map[string]string{
		"http://127.0.0.1:9000/jobs":          allowed,
		"http://127.0.0.1":                    allowed,
		"http://127.9.9.9/":                   allowed,
		"https://127.0.0.1:9000/jobs?key=abc": allowed,
		"http://[::1]:9000/":                  allowed,
		"http://[::ffff:127.0.0.1]/":          allowed,
		"http://localhost:9000/":              allowed, // a DNS name is checked when it is dialled
		"http://gpu-7.internal/":              allowed,
		"HTTP://127.0.0.1/":                   allowed,

		"":                       absolute,
		"jobs":                   absolute,
		"/jobs":                  absolute,
		"127.0.0.1:9000":         absolute,
		"http://":                absolute,
		"http:///jobs":           absolute,
		"http:127.0.0.1/":        absolute,
		"http://127.0.0.1:x/":    absolute,
		"http://[::1/":           absolute,
		"http://exa mple/":       absolute,
		"http://127.0.0.1/\x7f":  absolute,
		"http://:9000/":          absolute, // a port without a host
		"http://127.0.0.1:0/":    absolute, // invalid ports
		"http://127.0.0.1:70000": absolute,

		"ftp://127.0.0.1/":    scheme,
		"ws://127.0.0.1/":     scheme,
		"unix://127.0.0.1/x":  scheme,
		"//127.0.0.1/":        scheme,
		"javascript://x/%0aa": scheme,

		"http://user@127.0.0.1/":          user,
		"http://user:password@127.0.0.1/": user,
		"http://:@127.0.0.1/":             user,
		"http://127.0.0.1/#top":           fragment,

		"http://192.0.2.1/":             forbidden,
		"http://10.0.0.1:9000/":         forbidden,
		"http://0.0.0.0/":               forbidden,
		"http://[::]/":                  forbidden,
		"http://[2001:db8::1]/":         forbidden,
		"http://[::ffff:192.0.2.1]/":    forbidden,
		"http://[fe80::1%25eth0]/":      forbidden,
		"http://169.254.169.254/latest": forbidden,
		"http://128.0.0.1/":             forbidden,
	} {
		caller := nodeconn.NewCallbacks(nodeconn.CallbackConfig{Allowed: loopback})
		switch err := caller.Check(address); {
		case want == allowed && err != nil:
			t.Errorf("%q: want it allowed, got %q", address, err)
		case want != allowed && err == nil:
			t.Errorf("%q: want it refused with %q", address, want)
		case want != allowed && !strings.Contains(err.Error(), want):
			t.Errorf("%q: want %q in the error, got %q", address, want, err)
		case err != nil && strings.Contains(err.Error(), "password@"):
			t.Errorf("%q: the error contains the password: %q", address, err)
		}
	}
}

// TestAllowedTargets checks the configured networks.
func TestAllowedTargets(t *testing.T) {
	t.Parallel()
	caller := nodeconn.NewCallbacks(nodeconn.CallbackConfig{Allowed: prefixes("10.0.0.0/8")})
	for address, ok := range map[string]bool{"http://10.1.2.3/": true, "http://11.0.0.1/": false, "http://127.0.0.1/": false, "http://[::ffff:10.0.0.1]/": true} {
		if err := caller.Check(address); (err == nil) != ok {
			t.Errorf("%s: allowed should be %t, got %v", address, ok, err)
		}
	}
	if err := nodeconn.NewCallbacks(nodeconn.CallbackConfig{}).Check("http://127.0.0.1/"); err == nil {
		t.Error("no network is allowed, but an address was")
	}
}
