package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// startTimeout is generous: on a busy machine a start takes a second rather than its usual 20 ms.
const startTimeout = 20 * time.Second

// Server is a redis-server process, and the place where it is started again.
type Server struct {
	tb     testing.TB
	binary string
	dir    string
	port   int
	bus    int // where the nodes of a cluster talk; zero elsewhere
	blue   blueprint

	mu      sync.Mutex
	proc    *child.Process
	stopped bool
}

// Start runs a server that keeps nothing on disk.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	b := blueprint{settings: diskless()}
	for _, opt := range opts {
		opt(&b)
	}
	return build(tb, b)
}

// build makes a server of a blueprint. A port that a stranger took in the meantime is exchanged for another.
func build(tb testing.TB, b blueprint) *Server {
	tb.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatal("redis-server is not on PATH: `make test` installs it, or install Redis 7.0 or newer yourself")
	}
	s := &Server{tb: tb, binary: binary, dir: tb.TempDir(), blue: b}
	tb.Cleanup(s.tidy)
	for range 10 {
		s.port = child.Port(tb)
		if b.clustered {
			s.bus = child.Port(tb)
		}
		if err := os.WriteFile(s.file("redis.conf"), s.config(), 0o600); err != nil {
			tb.Fatal(err)
		}
		if err = s.launch(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Addr is where it listens, as host:port.
func (s *Server) Addr() string { return child.Address(s.port) }

// URL is the same for a client.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Do runs one command on a connection of its own and returns the reply: a string, an int64, nil or a []any of
// these. What Redis refuses is an ErrorReply; a server that does not answer within seconds is a timeout.
func (s *Server) Do(args ...string) (any, error) {
	return s.doWithin(patience, args...)
}

func (s *Server) doWithin(patience time.Duration, args ...string) (any, error) {
	c, err := dial(lifetime(s.tb), s.Addr(), patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.do(args...)
}

// Kill ends it at once, as a power cut would, and waits until it is gone.
func (s *Server) Kill() {
	s.mu.Lock()
	proc := s.proc
	s.proc, s.stopped = nil, false
	s.mu.Unlock()
	if proc != nil {
		proc.KillAndWait()
	}
}

// Restart starts it again where it was, with the files it left there. What it held in memory is lost: a
// primary that is restarted before its replica took over comes back empty, and its replicas follow it.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.launch(); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop halts it: the kernel still accepts connections and bytes, but nothing answers.
func (s *Server) Stop() {
	s.tb.Helper()
	proc := s.signal(syscall.SIGSTOP, true)
	eventually(s.tb, startTimeout, func() error {
		if !proc.Stopped() {
			return fmt.Errorf("%s does not stop", s.Addr())
		}
		return nil
	})
}

// Continue ends a Stop. The server then works through all that it was sent meanwhile.
func (s *Server) Continue() {
	s.tb.Helper()
	s.signal(syscall.SIGCONT, false)
}

func (s *Server) signal(sig syscall.Signal, stopped bool) *child.Process {
	s.tb.Helper()
	s.mu.Lock()
	proc := s.proc
	s.stopped = stopped
	s.mu.Unlock()
	if proc == nil {
		s.tb.Fatalf("%s was killed; it cannot be sent %v", s.Addr(), sig)
	}
	if err := proc.Signal(sig); err != nil {
		s.tb.Fatalf("%s cannot be sent %v: %v", s.Addr(), sig, err)
	}
	return proc
}

// running reports whether it can answer: neither killed nor stopped.
func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && s.proc.Alive() && !s.stopped
}

// tidy ends it with the test. Of a failed test the log's end is worth reading, and it goes with the directory.
func (s *Server) tidy() {
	s.Kill()
	if s.tb.Failed() {
		s.tb.Logf("the end of the log of %s:\n%s", s.Addr(), s.logTail(0))
	}
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// logTail is the end of what the log holds since an offset.
func (s *Server) logTail(since int64) string {
	const lines = 15
	log, err := os.ReadFile(s.file("redis.log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(log[min(since, int64(len(log))):])), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
