package guards

import (
	"flag"
	"testing"

	"github.com/lingua-scheduler/lingua/test/dashtest"
)

var dashboards = flag.Int("dashboards", 50, "how many dashboards are open in TestBesideDashboards")

// TestBesideDashboards measures dispatch while dashboards are open: they do what one in a browser did.
func TestBesideDashboards(t *testing.T) {
	s, url := serve(t)
	lasts := 10 * *window
	recording := dashtest.RunProgram(t, "record.mjs", dashtest.Arguments{URL: url, LastsMS: lasts.Milliseconds()})
	var seen string
	r := measure(t, s, condition{name: "calm"}, condition{"dashboards", func() func() {
		stop := dashtest.OpenDashboards(t, dashtest.Arguments{URL: url, Dashboards: *dashboards, Recording: recording})
		return func() { seen = stop() }
	}})
	t.Logf("%d dashboards: %s", *dashboards, seen)
	compare(t, r[0], r[1], besideOurs)
}
