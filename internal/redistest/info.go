package redistest

import (
	"fmt"
	"strconv"
	"strings"
)

// info reads a section of INFO: what stands before and after each line's colon.
func (s *Server) info(section string) (map[string]string, error) {
	text, err := s.text("INFO", section)
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

func fields(text string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[key] = value
		}
	}
	return found
}

// text runs a command whose reply is a string.
func (s *Server) text(args ...string) (string, error) {
	reply, err := s.Do(args...)
	if err != nil {
		return "", fmt.Errorf("%s at %s: %w", args[0], s.Addr(), err)
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%s at %s answered %v, want a string", args[0], s.Addr(), reply)
	}
	return text, nil
}

// must runs a command that has to succeed.
func (s *Server) must(args ...string) any {
	s.tb.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		s.tb.Fatalf("%s at %s: %v", strings.Join(args, " "), s.Addr(), err)
	}
	return reply
}

// CommandStats counts the calls of each command since the start or the last ResetStats, by the names that Redis
// gives them: in lower case, a subcommand as "config|get". A script counts as itself and as each command it
// calls. The harness's own "info" and "config|resetstat" are among them.
func (s *Server) CommandStats() map[string]int64 {
	s.tb.Helper()
	info, err := s.info("commandstats")
	if err != nil {
		s.tb.Fatal(err)
	}
	calls := make(map[string]int64, len(info))
	for key, value := range info {
		first, _, _ := strings.Cut(value, ",")
		n, err := strconv.ParseInt(strings.TrimPrefix(first, "calls="), 10, 64)
		if err != nil {
			s.tb.Fatalf("INFO commandstats says %s:%s", key, value)
		}
		calls[strings.TrimPrefix(key, "cmdstat_")] = n
	}
	return calls
}

// ResetStats lets CommandStats count from zero.
func (s *Server) ResetStats() {
	s.tb.Helper()
	s.must("CONFIG", "RESETSTAT")
}
