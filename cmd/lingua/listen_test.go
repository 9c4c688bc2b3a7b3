package main

import (
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// TestAddressInUse checks that a port in use exits with 1 and an alternative command line, with make as well.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	next := nextPort(config.Server{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
	for command, target := range map[string]string{"serve": "run", "demo": "demo"} {
		got := runCommandEnv(cancelledContext(), nil, command, "--listen", address)
		if got.code != exitFailed || got.out != "" {
			t.Errorf("lingua %s: exit %d %s", command, got.code, got.out)
		}
		for _, part := range []string{address + ": another program does", "lingua " + command + " --listen " + next + "\n", "make " + target + ` ARGS="--listen ` + next + "\"\n"} {
			if !strings.Contains(got.err, part) {
				t.Errorf("lingua %s: want %q in\n%s", command, part, got.err)
			}
		}
	}
}

func TestNextPort(t *testing.T) {
	t.Parallel()
	for port, want := range map[int]string{5010: "[::1]:5011", 65535: "[::1]:0"} {
		if got := nextPort(config.Server{Host: "::1", Port: port}); got != want {
			t.Errorf("after port %d: %s, want %s", port, got, want)
		}
	}
}

func TestReachableAddress(t *testing.T) {
	t.Parallel()
	for ip, want := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "[::1]", "192.0.2.1": "192.0.2.1", "0.0.0.0": "127.0.0.1", "::": "127.0.0.1"} {
		const port = 5010
		if got := reachableAddress(&net.TCPAddr{IP: net.ParseIP(ip), Port: port}); got != want+":"+strconv.Itoa(port) {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}
