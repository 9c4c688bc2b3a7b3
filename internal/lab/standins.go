package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// nodesTimeout bounds the wait for the stand-in nodes to be registered.
	nodesTimeout = 30 * time.Second
	// nodeShutdown is how long a stand-in node waits for its jobs when it stops. They have ended before, unless the load was cut
	// off by its timeout.
	nodeShutdown = 2 * time.Second
	// leftTimeout bounds the wait for the scheduler to record that the nodes have left.
	leftTimeout = 5 * time.Second
	// readers is how many nodes are read at once.
	readers = 16
)

// clock is the clock of a run, by which stand-in nodes put the time at which they received a job into its result.
type clock struct {
	run   string
	start time.Time
}

// The fields of a result of a stand-in node.
const (
	runField      = "bench_run"
	assignedField = "bench_assigned_us" // on the clock of the run
)

// stamp adds the time at which a job was received to its result.
func (c clock) stamp(r *node.Result, received time.Time) {
	if r.Extra == nil {
		r.Extra = make(map[string]any)
	}
	r.Extra[runField], r.Extra[assignedField] = c.run, received.Sub(c.start).Microseconds()
}

// assignedAt returns when a stand-in node of this run received the job of a result.
func (c clock) assignedAt(result json.RawMessage) (time.Time, bool) {
	var fields struct {
		Run      string `json:"bench_run"`
		Assigned int64  `json:"bench_assigned_us"`
	}
	if json.Unmarshal(result, &fields) != nil || fields.Run != c.run {
		return time.Time{}, false
	}
	return c.start.Add(time.Duration(fields.Assigned) * time.Microsecond), true
}

// standIns are the stand-in nodes of a run.
type standIns struct {
	cfg  *LoadConfig
	apis []*API
	ids  []string

	stop         context.CancelFunc
	running      sync.WaitGroup
	ended        chan error   // receives the error of a node that ended by itself
	lost         atomic.Int64 // nodes that ended by themselves
	overAssigned atomic.Int64 // jobs for which a node had no free slot
}

// startStandIns connects the nodes and waits until every instance knows them.
func startStandIns(ctx context.Context, r *loadRun) (*standIns, error) {
	n := &standIns{cfg: &r.cfg, apis: r.apis, ended: make(chan error, r.cfg.Nodes)}
	nodesCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stop = stop
	worker := &Worker{JobDuration: LogNormal(r.cfg.Work, r.cfg.WorkSpread)}
	handler := func(ctx context.Context, job *node.Job) (node.Result, error) {
		received := time.Now()
		result, err := worker.Do(ctx, job)
		r.clock.stamp(&result, received)
		return result, err
	}
	for i := range r.cfg.Nodes {
		id := fmt.Sprintf("%s-n%d", r.name, i)
		n.ids = append(n.ids, id)
		n.running.Go(func() {
			err := node.Run(nodesCtx, node.Config{
				URLs: r.cfg.URLs, Token: r.cfg.NodeToken, ID: id, Slots: r.cfg.Slots, HTTPClient: r.sockets,
				Log:         slog.New(slog.DiscardHandler),
				Declaration: wire.Declaration{SemanticLangs: r.cfg.languages()}, ShutdownTimeout: nodeShutdown,
				OnFull: func(wire.ActiveJob) { n.overAssigned.Add(1) },
			}, handler)
			if nodesCtx.Err() == nil {
				n.lost.Add(1)
				n.ended <- fmt.Errorf("stand-in node %s: %w", id, err)
			}
		})
	}
	if err := n.awaitReady(ctx); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// languages returns the languages of all directions.
func (c *LoadConfig) languages() []string {
	var all []string
	for _, p := range c.Pairs {
		all = append(all, p.Src, p.Tgt)
	}
	return all
}

// awaitReady waits until every instance could give jobs to all nodes.
func (n *standIns) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	for _, api := range n.apis {
		for _, pair := range n.cfg.Pairs {
			retry := run.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}
			for ready := 0; ready < n.cfg.Nodes; {
				var err error
				if ready, err = readyNodes(ctx, api, pair); err != nil {
					return err
				}
				select {
				case err := <-n.ended:
					return err
				default:
				}
				if ready < n.cfg.Nodes && !retry.Wait(ctx) {
					if errors.Is(ctx.Err(), context.DeadlineExceeded) {
						return fmt.Errorf("after %v the scheduler at %s has %d of %d stand-in nodes ready for %s",
							nodesTimeout, redact(api.URL), ready, n.cfg.Nodes, pair)
					}
					return ctx.Err()
				}
			}
		}
	}
	return nil
}

// readyNodes returns how many nodes an instance could give jobs of a direction to.
func readyNodes(ctx context.Context, api *API, pair Pair) (int, error) {
	for cursor := ""; ; {
		var list wire.DirectionList
		q := url.Values{"language": {pair.Src}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		if err := api.Get(ctx, "/v1/directions?"+q.Encode(), &list); err != nil {
			return 0, requestFailed(ctx, api, err)
		}
		for _, d := range list.Directions {
			if d.SrcLang == pair.Src && d.TgtLang == pair.Tgt {
				return d.Ready, nil
			}
		}
		if cursor = list.NextCursor; cursor == "" {
			return 0, nil
		}
	}
}

// close stops the nodes and waits for them.
func (n *standIns) close() {
	n.stop()
	n.running.Wait()
}

// errBusy means that a slot of a node is taken.
var errBusy = errors.New("a slot is taken")

// checkLeft waits until no slot of the nodes, which have stopped, is taken, and reports what is left of them in the scheduler.
func (n *standIns) checkLeft(ctx context.Context) *NodesReport {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftTimeout)
	defer cancel()
	report := &NodesReport{OverAssigned: n.overAssigned.Load(), Lost: n.lost.Load()}
	var mu sync.Mutex
	run.ForEach(readers, n.ids, func(id string) {
		listed, err := n.awaitFree(ctx, id)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, errBusy):
			report.StillBusy++
		case err != nil:
			report.Unknown++
		case listed:
			report.StillListed++
		}
	})
	return report
}

// awaitFree waits until no slot of a node is taken, and returns whether the scheduler lists the node.
func (n *standIns) awaitFree(ctx context.Context, id string) (listed bool, err error) {
	run.Backoff{Min: 20 * time.Millisecond, Max: time.Second}.Retry(ctx, func() error {
		var state wire.Node
		readErr := n.apis[0].Get(ctx, "/v1/nodes/"+url.PathEscape(id), &state)
		var refusal *wire.Error
		switch {
		case errors.As(readErr, &refusal) && refusal.Code == wire.NotFound:
			listed, err = false, nil
		case readErr != nil && ctx.Err() != nil && err != nil: // keep the cause from before the timeout
		case readErr != nil:
			err = readErr
		case state.EffectiveLoad > 0:
			err = errBusy
		default:
			listed, err = true, nil
		}
		return err
	})
	return listed, err
}
