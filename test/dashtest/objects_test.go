package dashtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

// holder is a node that accepts every job and never ends one, and heldJobs how many it gets at a time.
const (
	holder   = "holder"
	heldJobs = 4
)

// holdJobs registers the holder, unless it is registered, and dispatches jobs to it.
func (c *testCluster) holdJobs() error {
	nodes, callers := lab.NewAPI(c.balancer.URL()), lab.NewAPI(c.balancer.URL())
	nodes.Token, callers.Token = nodeToken, keys["operator"]
	defer nodes.Close()
	defer callers.Close()
	if c.holderURL == "" {
		accepts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
		c.t.Cleanup(accepts.Close)
		c.holderURL = accepts.URL
	}
	slots, none := 4*heldJobs, []wire.ActiveAttempt{}
	if err := nodes.Post(c.t.Context(), "/v1/node/register", wire.RegisterRequest{NodeID: holder, NodeToken: "token-of-the-holder", Declaration: wire.Declaration{
		SemanticLangs: []string{"sv", "da"}, TTSLangs: []string{"sv", "da"}, MaxConcurrentJobs: &slots, CallbackURL: &c.holderURL, Active: none,
	}}, &wire.RegisterResponse{}); err != nil {
		return err
	}
	for i := range heldJobs {
		request := fmt.Sprintf("held-%d-%d", time.Now().UnixNano(), i)
		err := clustertest.Eventually(c.t.Context(), clustertest.StartTimeout, func() error {
			return callers.Post(c.t.Context(), "/v1/dispatch/f2f", map[string]any{"request_id": request, "session_id": "held", "src_lang": "sv", "tgt_lang": "da"}, &wire.DispatchResponse{})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// makeDeadLetters puts messages that no instance understands into the inboxes of all instances.
func (c *testCluster) makeDeadLetters() error {
	api := lab.NewAPI(c.balancer.URL())
	api.Token = keys["operator"]
	defer api.Close()
	var list wire.InstanceList
	if err := api.Get(c.t.Context(), "/v1/instances", &list); err != nil {
		return err
	}
	for _, i := range list.Instances {
		if _, err := c.redis.Do("XADD", clustertest.InboxKey(i.Incarnation), "*", "unknown", "message"); err != nil {
			return err
		}
	}
	return nil
}
