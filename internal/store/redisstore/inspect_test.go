package redisstore_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestInspect checks that every server is described, the replicas by their primary if the client library does not know them, that the slots
// of a cluster are complete, and that servers which do not answer in time are not healthy.
func TestInspect(t *testing.T) {
	t.Parallel()
	for mode, start := range map[string]func(t *testing.T) (url string, servers int){
		"standalone": func(t *testing.T) (string, int) { return redistest.Start(t).URL(), 1 },
		"sentinel": func(t *testing.T) (string, int) {
			s := redistest.StartSentinel(t).WithoutFailover()
			return s.URL(), len(s.Servers())
		},
		"cluster": func(t *testing.T) (string, int) {
			c := redistest.StartCluster(t).WithoutFailover()
			return c.URL(), len(c.Servers())
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url, servers := start(t)
			st := open(t, url)
			i := st.Inspect(t.Context())
			primaries, slots := 0, ""
			for _, s := range i.Servers {
				if s.Address == "" || !s.Healthy || (s.Slots != "") != (mode == "cluster" && s.Primary) {
					t.Errorf("a server: %+v", s)
				}
				if s.Primary {
					primaries++
					if s.Version == "" || s.Policy != "noeviction" || s.Used <= 0 || s.Clients <= 0 || s.Ping <= 0 || s.Lag != -1 {
						t.Errorf("a primary: %+v", s)
					}
				} else if s.Lag < 0 {
					t.Errorf("the lag of a replica is not known: %+v", s)
				}
				slots += s.Slots
			}
			if i.Mode != mode || len(i.Servers) != servers || primaries == 0 || primaries > 1 && mode != "cluster" ||
				(primaries == servers) != (mode == "standalone") || (slots != "") != (mode == "cluster") {
				t.Errorf("%d of %d servers, %d primaries, slots %q: %+v", len(i.Servers), servers, primaries, slots, i)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			for _, s := range st.Inspect(ended).Servers {
				if s.Healthy || s.Address == "" {
					t.Errorf("a server that was not asked: %+v", s)
				}
			}
		})
	}
}

// TestParseReplicas checks what is read of the reply of a primary, whatever that contains.
func TestParseReplicas(t *testing.T) {
	t.Parallel()
	got := redisstore.ParseReplicas(map[string]string{
		"master_repl_offset": "1000",
		"slave0":             "ip=10.0.0.2,port=6379,state=online,offset=990,lag=0",
		"slave1":             "ip=fe80::1,port=6380,state=wait_bgsave,offset=x",
		"slave2":             "nonsense",
		"slave4":             "ip=10.0.0.4,port=6379,state=online,offset=1,lag=0",
	})
	want := []store.Server{
		{Address: "10.0.0.2:6379", Healthy: true, Lag: 10}, {Address: "[fe80::1]:6380", Lag: -1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
