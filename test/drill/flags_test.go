package drill

import (
	"flag"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

var (
	drillFor       = flag.Duration("drill-for", 0, "for how long faults are injected in each drill; 0: each fault once")
	drillSeed      = flag.Uint64("drill-seed", 0, "the seed of the choice of faults and their targets; 0: a new one, which is printed")
	drillTopology  = flag.String("drill-topology", clustertest.Standalone, "the topology of Redis: standalone, sentinel or cluster")
	drillInstances = flag.Int("drill-instances", 3, "the number of instances")
	drillSessions  = flag.Int("drill-sessions", 8, "the number of sessions")
	drillNodes     = flag.Int("drill-nodes", 0, "the number of socket nodes with eight slots; 0: twice as many as the sessions need")
	drillEvery     = flag.Duration("drill-every", time.Second, "the mean time between two utterances of a session")
	drillCallers   = flag.Int("drill-callers", 8, "the number of HTTP callers, each with about one job a second")
	drillCallbacks = flag.Int("drill-callbacks", 2, "the number of callback nodes with eight slots")
)
