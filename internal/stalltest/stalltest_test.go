package stalltest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStalls: what takes twice the interval is a stall, and only that.
func TestStalls(t *testing.T) {
	t.Parallel()
	d := &Detector{}
	begin := time.Now()
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	d.observe(at(0), at(20))
	d.observe(at(20), at(59))
	d.observe(at(59), at(99))
	d.observe(at(99), at(119))
	d.observe(at(119), at(3139))
	if got := d.Stalls(); len(got) != 2 || got[0] != (Stall{at(79), at(99)}) || got[1] != (Stall{at(139), at(3139)}) {
		t.Errorf("%v", got)
	}
	if total, longest := d.Total(), d.TakeLongest(); total != 3020*time.Millisecond || longest != 3020*time.Millisecond {
		t.Errorf("%v, the longest %v", total, longest)
	}
	d.observe(at(3139), at(3169))
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
