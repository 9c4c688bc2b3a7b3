package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

var errPortTaken = errors.New("the port is taken")

// launch starts the process and returns when it answers.
func (s *Server) launch() error {
	log, err := os.OpenFile(s.file("redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own
	before, err := log.Stat()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(lifetime(s.tb), s.binary, append([]string{s.file("redis.conf")}, s.blue.flags...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	proc, err := child.Start(cmd)
	if err != nil {
		return err
	}
	if err := s.await(proc, before.Size()); err != nil {
		proc.KillAndWait()
		return err
	}
	s.mu.Lock()
	s.proc = proc
	s.mu.Unlock()
	if len(s.blue.first) > 0 {
		_, err = s.Do(s.blue.first...)
	}
	return err
}

// await returns when the process answers, or with the reason why it never will.
func (s *Server) await(proc *child.Process, logged int64) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	again := time.NewTicker(pollEvery)
	defer again.Stop()
	for {
		if s.answersAs(proc.Pid) {
			return nil
		}
		select {
		case <-proc.Exited:
			said := s.logTail(logged)
			if strings.Contains(said, "Failed listening on port") {
				return fmt.Errorf("%s: %w", s.Addr(), errPortTaken)
			}
			return fmt.Errorf("redis-server ended at its start and said:\n%s", said)
		case <-deadline.C:
			return fmt.Errorf("redis-server does not answer at %s within %v and said:\n%s", s.Addr(), startTimeout, s.logTail(logged))
		case <-again.C:
		}
	}
}

// answersAs reports whether it is this process that answers on the port, and not one that was there before. It
// asks only briefly, since whatever was there before may not be a Redis and say nothing.
func (s *Server) answersAs(pid int) bool {
	reply, err := s.doWithin(startTimeout/50, "INFO", "server")
	text, _ := reply.(string)
	return err == nil && fields(text)["process_id"] == strconv.Itoa(pid)
}
