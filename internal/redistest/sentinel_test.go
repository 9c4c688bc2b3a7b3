package redistest

import (
	"regexp"
	"testing"
	"time"
)

// soon is how long a failover may take. It takes a third of that, unless the machine is very busy or the votes are
// split.
const soon = 10 * time.Second

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
	s.WaitHealthy(soon)
	primary := s.Primary()
	if primary == killed {
		t.Fatal("the dead one is still primary")
	}
	expect(t, primary.Do, "value", "GET", "key")
	expect(t, primary.Do, "OK", "SET", "key", "newer")

	killed.Restart()
	s.WaitHealthy(soon)
	if s.Primary() != primary {
		t.Error("the killed one is primary again")
	}
	expect(t, killed.Do, "newer", "GET", "key")

	// A primary that hangs is replaced as well, and made a replica when it comes back.
	primary.Stop()
	s.WaitHealthy(soon)
	if s.Primary() == primary {
		t.Fatal("the one that hangs is still primary")
	}
	primary.Continue()
	s.WaitHealthy(soon)
	if s.Primary() == primary {
		t.Fatal("the one that hung is primary again")
	}
}

// TestTwoSentinelsAreEnough: with one of three gone, a failover still happens.
func TestTwoSentinelsAreEnough(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	s.Sentinels()[0].Kill()
	killed := s.KillPrimary()
	s.WaitHealthy(soon)
	if s.Primary() == killed {
		t.Fatal("the dead one is still primary")
	}
	s.Sentinels()[0].Restart()
	s.WaitHealthy(soon)
}
