package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/tlstest"
)

// TestCommandsWithOwnAuthority: commands connect to a scheduler whose certificate a private authority has signed, by --ca or LINGUA_CA.
func TestCommandsWithOwnAuthority(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p := a.NewPair(t)
	s := startServer(t, "--config", writeConfig(t, "[server]\ntls_cert = \""+p.Cert+"\"\ntls_key = \""+p.Key+"\"\n"))
	url := strings.Replace(s.url, "http://", "https://", 1)
	for _, command := range [][]string{
		{"health", "--ready"},
		{"nodes"},
		{"instances", "--json"},
		{"bench", "--arrivals", "even", "--rate", "20", "--duration", "300ms", "--warmup", "0s", "--nodes", "1", "--work", "1ms", "--max-lag", "1m"},
		{"bench", "--mode", "sockets", "--arrivals", "even", "--rate", "10", "--duration", "300ms", "--warmup", "0s", "--nodes", "1", "--work", "1ms", "--speech", "100ms", "--max-lag", "1m"},
	} {
		args := append(command, "--server", url)
		if got := runCommand(t, append(args, "--ca", a.File)...); got.code != exitOK {
			t.Errorf("%v: exit %d\n%s%s", command, got.code, got.out, got.err)
		}
		if got := runCommandEnv(t.Context(), []string{"LINGUA_CA=" + a.File}, args...); got.code != exitOK {
			t.Errorf("%v with LINGUA_CA: exit %d\n%s%s", command, got.code, got.out, got.err)
		}
		if got := runCommand(t, args...); got.code != exitUnreachable || !strings.Contains(got.err, "certificate") {
			t.Errorf("%v without the authority: exit %d\n%s", command, got.code, got.err)
		}
		if got := runCommand(t, append(args, "--ca", "/does/not/exist.pem")...); got.code != exitUsage || !strings.Contains(got.err, "--ca or LINGUA_CA: ") {
			t.Errorf("%v with a missing file: exit %d\n%s", command, got.code, got.err)
		}
	}
}

// TestNodeAndTalkWithOwnAuthority: a node and a session connect by wss.
func TestNodeAndTalkWithOwnAuthority(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p := a.NewPair(t)
	s := startServer(t, "--config", writeConfig(t, "[server]\ntls_cert = \""+p.Cert+"\"\ntls_key = \""+p.Key+"\"\n"))
	url := strings.Replace(s.url, "http://", "https://", 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() {
		ended <- runCommandEnv(ctx, nil, "node", "--sim", "--server", url, "--ca", a.File, "--latency", "1ms", "--id", "sim-1")
	}()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(runCommand(t, "nodes", "--server", url, "--ca", a.File).out, "sim-1"); {
		if time.Now().After(deadline) {
			t.Fatal("the node did not register")
		}
	}
	got := runCommand(t, "talk", wavFile(t, 300, true), "--from", "en", "--to", "es", "--server", url, "--ca", a.File)
	if got.code != exitOK || !strings.Contains(got.out, "results: 1") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.err)
	}
	stop()
	if got := <-ended; got.code != exitOK {
		t.Errorf("the node: exit %d\n%s", got.code, got.err)
	}
}
