package redistest

import (
	"regexp"
	"testing"
	"time"
)

// failoverTimeout is three times as long as a failover usually takes. A busy machine or split votes delay it.
const failoverTimeout = 10 * time.Second

func TestSentinelFailsOver(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	if !regexp.MustCompile(`^redis-sentinel://127\.0\.0\.1:\d+,127\.0\.0\.1:\d+,127\.0\.0\.1:\d+/mymaster/0$`).MatchString(s.URL()) {
		t.Errorf("URL %s", s.URL())
	}
	c := connect(t, s.Primary().Addr())
	expect(t, c.do, "OK", "SET", "key", "value")
	expect(t, c.do, int64(2), "WAIT", "2", "5000")

	killed := s.KillPrimary()
	s.WaitHealthy(failoverTimeout)
	primary := s.Primary()
	if primary == killed {
		t.Fatal("the dead server is still primary")
	}
	expect(t, primary.Do, "value", "GET", "key")
	expect(t, primary.Do, "OK", "SET", "key", "newer")

	killed.Restart()
	s.WaitHealthy(failoverTimeout)
	if s.Primary() != primary {
		t.Error("the killed server is primary again")
	}
	expect(t, killed.Do, "newer", "GET", "key")

	// A primary that hangs is replaced as well, and becomes a replica when it continues.
	primary.Stop()
	s.WaitHealthy(failoverTimeout)
	if s.Primary() == primary {
		t.Fatal("the stopped server is still primary")
	}
	primary.Continue()
	s.WaitHealthy(failoverTimeout)
	if s.Primary() == primary {
		t.Fatal("the stopped server is primary again")
	}
}

func TestFailoverWithTwoSentinels(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	s.Sentinels()[0].Kill()
	killed := s.KillPrimary()
	s.WaitHealthy(failoverTimeout)
	if s.Primary() == killed {
		t.Fatal("the dead server is still primary")
	}
	s.Sentinels()[0].Restart()
	s.WaitHealthy(failoverTimeout)
}
