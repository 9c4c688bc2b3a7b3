package socket_test

import (
	"testing"

	"github.com/lingua-scheduler/lingua/internal/socket"
)

func TestCountedAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:80":                 "192.0.2.7",
		"[::ffff:192.0.2.7]:80":        "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:80":    "2001:db8:1:2::",
		"[2001:db8:1:2:ffff::1]:80":    "2001:db8:1:2::",
		"[2001:db8:1:3::1]:80":         "2001:db8:1:3::",
		"[fe80::1:2:3%eth0]:80":        "fe80::",
		"192.0.2.7":                    "invalid IP",
		"@":                            "invalid IP",
		"":                             "invalid IP",
		"/run/lingua.sock:0:something": "invalid IP",
	} {
		if got := socket.PeerAddr(remote).String(); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}
