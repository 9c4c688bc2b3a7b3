package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/child"
)

// startTimeout is generous: a start takes 20 ms, and on a busy machine a second.
const startTimeout = 20 * time.Second

// Server is a redis-server process, which can be killed and restarted at the same address.
type Server struct {
	tb      testing.TB
	binary  string
	dir     string
	port    int
	busPort int // the port of the cluster bus; zero: no cluster
	config  serverConfig

	mu      sync.Mutex
	proc    *child.Process
	stopped bool
}

// Start starts a server that keeps all data in memory.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	cfg := serverConfig{settings: inMemorySettings()}
	for _, opt := range opts {
		opt(&cfg)
	}
	return startServer(tb, cfg)
}

// startServer starts a server. If another process takes the port meanwhile, it tries another port.
func startServer(tb testing.TB, cfg serverConfig) *Server {
	tb.Helper()
	if testing.Short() {
		tb.Skip("it needs redis-server: `make test`")
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatal("redis-server is not on PATH: `make test` installs it, or install Redis 7.0 or newer yourself")
	}
	s := &Server{tb: tb, binary: binary, dir: tb.TempDir(), config: cfg}
	tb.Cleanup(s.cleanUp)
	for range 10 {
		s.port = child.Port(tb)
		if cfg.isClusterNode {
			s.busPort = child.Port(tb)
		}
		if err := os.WriteFile(s.file("redis.conf"), s.renderConfig(), 0o600); err != nil {
			tb.Fatal(err)
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Addr returns the address of the server, as host:port.
func (s *Server) Addr() string { return child.Address(s.port) }

// URL returns the store URL of the server.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Do runs one command on a new connection and returns the reply: a string, an int64, nil or a []any of these. An error
// reply is returned as an ReplyError; a server that does not answer within seconds is a timeout.
func (s *Server) Do(args ...string) (any, error) {
	return s.doTimeout(answerTimeout, args...)
}

func (s *Server) doTimeout(timeout time.Duration, args ...string) (any, error) {
	c, err := dial(withoutCancel(s.tb), s.Addr(), timeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.do(args...)
}

// Kill kills the process and waits for its exit.
func (s *Server) Kill() {
	s.mu.Lock()
	proc := s.proc
	s.proc, s.stopped = nil, false
	s.mu.Unlock()
	if proc != nil {
		proc.KillAndWait()
	}
}

// Restart starts the server again with its files. The data in memory is lost: a primary that is restarted before its
// replica has taken over starts empty, and its replicas become empty, too.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.tb.Fatal(err)
	}
}

// Stop sends SIGSTOP: the kernel still accepts connections and bytes, but the server does not answer.
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

// Continue ends a Stop. The server then handles everything that it was sent meanwhile.
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

// running reports whether the server was neither killed nor stopped.
func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && s.proc.Alive() && !s.stopped
}

// cleanUp ends the server at the end of the test, and prints the end of its log if the test failed.
func (s *Server) cleanUp() {
	s.Kill()
	if s.tb.Failed() {
		s.tb.Logf("the end of the log of %s:\n%s", s.Addr(), s.logTail(0))
	}
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// logTail returns the last lines of the log after an offset.
func (s *Server) logTail(since int64) string {
	const lines = 15
	log, err := os.ReadFile(s.file("redis.log"))
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(log[min(since, int64(len(log))):])), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// serverConfig is the configuration of a server: the lines of its redis.conf except for its address, command-line flags, a
// command to run after each start, and whether the server is a node of a cluster.
type serverConfig struct {
	settings      []setting
	flags         []string
	startCommand  []string
	isClusterNode bool
}

type setting struct{ key, value string }

// Option changes the configuration of a server.
type Option func(*serverConfig)

// WithConfig adds a line to redis.conf. The value has the syntax of that file.
func WithConfig(key, value string) Option {
	return func(cfg *serverConfig) { cfg.settings = append(cfg.settings, setting{key, value}) }
}

// inMemorySettings keep all data in memory, so that a killed server loses it.
func inMemorySettings() []setting {
	return []setting{{"save", `""`}, {"appendonly", "no"}}
}

// replicationSettings make replicas synchronise quickly: without a file, and without waiting for more replicas.
func replicationSettings() []setting {
	return append(inMemorySettings(),
		setting{"repl-diskless-sync", "yes"},
		setting{"repl-diskless-sync-delay", "0"},
		setting{"repl-ping-replica-period", "1"},
	)
}

// renderConfig returns the text of redis.conf. The cluster bus has a reserved port, because the default one, which is 10000
// higher, may be in use.
func (s *Server) renderConfig() []byte {
	text := fmt.Appendf(nil, "bind 127.0.0.1\nport %d\ndir %q\n", s.port, s.dir)
	if s.config.isClusterNode {
		text = fmt.Appendf(text, "cluster-enabled yes\ncluster-port %d\n", s.busPort)
	}
	for _, line := range s.config.settings {
		text = fmt.Appendf(text, "%s %s\n", line.key, line.value)
	}
	return text
}

var errPortTaken = errors.New("the port is taken")

// start starts the process and returns when it answers.
func (s *Server) start() error {
	log, err := os.OpenFile(s.file("redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	before, err := log.Stat()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(withoutCancel(s.tb), s.binary, append([]string{s.file("redis.conf")}, s.config.flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	proc, err := child.Start(cmd)
	if err != nil {
		return err
	}
	if err := s.waitAnswer(proc, before.Size()); err != nil {
		proc.KillAndWait()
		return err
	}
	s.mu.Lock()
	s.proc = proc
	s.mu.Unlock()
	if len(s.config.startCommand) > 0 {
		_, err = s.Do(s.config.startCommand...)
	}
	return err
}

// waitAnswer returns when the process answers, or with the reason why it never will.
func (s *Server) waitAnswer(proc *child.Process, logged int64) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if s.answersAs(proc.Pid) {
			return nil
		}
		select {
		case <-proc.Exited:
			log := s.logTail(logged)
			if strings.Contains(log, "Failed listening on port") {
				return fmt.Errorf("%s: %w", s.Addr(), errPortTaken)
			}
			return fmt.Errorf("redis-server exited at its start; its log:\n%s", log)
		case <-deadline.C:
			return fmt.Errorf("redis-server does not answer at %s within %v; its log:\n%s", s.Addr(), startTimeout, s.logTail(logged))
		case <-ticker.C:
		}
	}
}

// answersAs reports whether this process answers on the port, and not another one that was there before. The timeout is
// short, because another program may not answer at all.
func (s *Server) answersAs(pid int) bool {
	reply, err := s.doTimeout(startTimeout/50, "INFO", "server")
	text, _ := reply.(string)
	return err == nil && parseInfo(text)["process_id"] == strconv.Itoa(pid)
}

// pollInterval is how often the state of another process is read, which cannot notify the test.
const pollInterval = 10 * time.Millisecond

// eventually calls check until it returns nil, and fails the test after the timeout.
func eventually(tb testing.TB, timeout time.Duration, check func() error) {
	tb.Helper()
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("not within %v: %v", timeout, err)
		case <-ticker.C:
		}
	}
}

// withoutCancel returns the context of the test without its cancellation, which happens before the clean-up functions of
// the test.
func withoutCancel(tb testing.TB) context.Context { return context.WithoutCancel(tb.Context()) }
