package drill

import (
	"flag"
	"time"
)

var (
	drillFor       = flag.Duration("drill-for", 0, "how long the faults of each drill go on; 0: each once")
	drillSeed      = flag.Uint64("drill-seed", 0, "from which the faults and whom they strike are drawn; 0: a new one, which is printed")
	drillTopology  = flag.String("drill-topology", "standalone", "the Redis: standalone, sentinel or cluster")
	drillInstances = flag.Int("drill-instances", 3, "how many instances")
	drillSessions  = flag.Int("drill-sessions", 16, "how many people speak")
	drillNodes     = flag.Int("drill-nodes", 0, "how many nodes of eight slots serve them; 0: as many as they need, twice")
	drillEvery     = flag.Duration("drill-every", time.Second, "about how often each of them says something")
	drillCallers   = flag.Int("drill-callers", 8, "how many people have jobs done over HTTP, about one a second each")
	drillCallbacks = flag.Int("drill-callbacks", 2, "how many HTTP nodes of eight slots there are beside the others")
)
