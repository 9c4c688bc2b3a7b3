package lab

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Rivals are callers of several tenants, which send more jobs of one direction than ContestedNode, which serves it, can do: they wait in
// line, and share its slots by the weights of their tenants.
type Rivals struct {
	URL     string
	Token   string // empty: the scheduler has no keys
	Tenants []string
	Callers int // of each tenant; each sends its next job when the one before has a slot
}

// rivalWait is how long a caller waits for a slot.
const rivalWait = 30 * time.Second

var rivalLangs = []string{"it", "pt"}

// ContestedNode returns the node for which rivals wait.
func ContestedNode() *SocketNode {
	return &SocketNode{ID: "turin", Langs: rivalLangs, Slots: 2, Fault: "too small",
		Worker: &Worker{JobDuration: LogNormal(600*time.Millisecond, 0.4)}}
}

// Run runs the callers until the context ends.
func (r *Rivals) Run(ctx context.Context) {
	var running sync.WaitGroup
	api := NewAPI(r.URL)
	api.Token, api.HTTP.Timeout = r.Token, 2*rivalWait
	defer api.Close()
	started := time.Now().UnixNano()
	for _, tenant := range r.Tenants {
		for i := range r.Callers {
			running.Go(func() { r.call(ctx, api, tenant, fmt.Sprintf("%s-%d-%d", tenant, started, i)) })
		}
	}
	running.Wait()
}

// call sends the jobs of one caller, one after the other.
func (r *Rivals) call(ctx context.Context, api *API, tenant, name string) {
	wait := rivalWait.Milliseconds()
	for n := 0; ctx.Err() == nil; n++ {
		err := api.Post(ctx, "/v1/dispatch/f2f", wire.DispatchRequest{
			RequestID: fmt.Sprintf("%s-%d", name, n), SessionID: "calls-of-" + tenant, TenantID: tenant, SrcLang: rivalLangs[0],
			TgtLang:  rivalLangs[1],
			AudioRef: "blob://hello", Options: wire.DispatchOptions{MaxWaitMS: &wait},
		}, &wire.DispatchResponse{})
		if err != nil {
			run.SleepJitter(ctx, 500*time.Millisecond, 0.5) // it is refused, or the node has not registered yet
		}
	}
}
