package stalltest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStalls: what is longer than the interval by a fifth of a second is a stall, and only that.
func TestStalls(t *testing.T) {
	t.Parallel()
	d := &Detector{}
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	d.observe(at(0), at(20))
	d.observe(at(20), at(239))
	d.observe(at(239), at(459))
	d.observe(at(459), at(479))
	d.observe(at(479), at(3499))
	if got := d.Stalls(); len(got) != 2 || got[0] != (Stall{at(259), at(459)}) || got[1] != (Stall{at(499), at(3499)}) {
		t.Errorf("%v", got)
	}
	if total, longest := d.Total(), d.TakeLongest(); total != 3200*time.Millisecond || longest != 3020*time.Millisecond {
		t.Errorf("%v, the longest %v", total, longest)
	}
	d.observe(at(3499), at(3529))
	if longest := d.TakeLongest(); longest != 30*time.Millisecond {
		t.Errorf("since then: %v", longest)
	}
}

// TestDetectorEnds: a process that runs has no stalls, and the detector ends when it is stopped.
func TestDetectorEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, stop := Start()
		time.Sleep(time.Minute)
		stop()
		if got := d.Stalls(); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}
