package redistest

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestAPortThatIsTakenIsNoticed(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Kill()
	other, err := net.Listen("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := s.launch(); !errors.Is(err, errPortTaken) {
		t.Errorf("a start on a taken port: %v", err)
	}
}

// TestAnotherServerOnThePortIsNoticed: it would answer, and it is not ours.
func TestAnotherServerOnThePortIsNoticed(t *testing.T) {
	t.Parallel()
	there := Start(t)
	s := &Server{tb: t, binary: there.binary, dir: t.TempDir(), port: there.port}
	if err := os.WriteFile(s.file("redis.conf"), s.config(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.launch(); !errors.Is(err, errPortTaken) {
		t.Errorf("a start on another server's port: %v", err)
	}
}

// failing stands in for a test that is to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatal(args ...any) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case string:
			f.said += arg
		case error:
			f.said += arg.Error()
		}
	}
	runtime.Goexit()
}

// failureOf is what a start says when it fails its test.
func failureOf(t *testing.T, opts ...Option) string {
	f := &failing{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Start(f, opts...)
	}()
	<-ended
	return f.said
}

func TestAWrongConfigurationIsQuoted(t *testing.T) {
	t.Parallel()
	if said := failureOf(t, WithConfig("no-such-directive", "1")); !strings.Contains(said, "no-such-directive") {
		t.Errorf("it says: %s", said)
	}
}

// TestWithoutRedis changes the environment, so it runs alone.
func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if said := failureOf(t); !strings.Contains(said, "`make test` installs it") {
		t.Errorf("it says: %s", said)
	}
}
