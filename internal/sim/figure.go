package sim

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// Figure is a node of the demo, connected by its socket.
type Figure struct {
	ID    string
	Langs []string
	Slots int
	Work  *Worker
	Line  time.Duration // about how long its connection lasts; 0: as long as it is wanted
	Fault string        // what is wrong with it, in words
}

// Cast makes the demo's fleet: different languages, capacities, speeds and faults.
func Cast() []*Figure {
	europe, asia := []string{"en", "de", "fr", "es"}, []string{"en", "zh", "ja", "ko"}
	world := []string{"en", "de", "fr", "es", "zh", "ja"}
	figure := func(id string, langs []string, slots, ms int) *Figure {
		return &Figure{ID: id, Langs: langs, Slots: slots, Work: &Worker{Took: Around(time.Duration(ms)*time.Millisecond, 0.4)}}
	}
	faulty := func(f *Figure, fault string, change func(*Figure)) *Figure {
		f.Fault = fault
		change(f)
		return f
	}
	return []*Figure{
		figure("oslo", europe, 4, 300),
		figure("paris", europe, 4, 350),
		figure("madrid", europe, 2, 250),
		figure("tokyo", asia, 4, 300),
		figure("seoul", asia, 4, 400),
		figure("taipei", asia, 2, 250),
		figure("geneva", world, 8, 500),
		faulty(figure("nairobi", world, 4, 900), "slow", func(*Figure) {}),
		faulty(figure("lima", world, 4, 300), "fails 1 in 5", func(f *Figure) { f.Work.Fail = 0.2 }),
		faulty(figure("cairo", world, 2, 300), "forgets 1 in 10", func(f *Figure) { f.Work.Lose = 0.1 }),
		faulty(figure("delhi", asia, 4, 350), "refuses 1 in 5", func(f *Figure) { f.Work.Busy = 0.2 }),
		faulty(figure("quito", europe, 2, 300), "loses its line", func(f *Figure) { f.Line = 3 * time.Second }),
	}
}

// Run is the node until the context ends and its jobs have.
func (f *Figure) Run(ctx context.Context, url string, log *slog.Logger) error {
	return node.Run(ctx, node.Config{
		URL: url, ID: f.ID, Slots: f.Slots, Log: log, HTTPClient: badLine(f.Line), ShutdownTimeout: time.Second, OnFull: f.Work.over,
		Declaration: wire.Declaration{SemanticLangs: f.Langs, ASRLangs: f.Langs, TTSLangs: f.Langs},
	}, f.Work.Do)
}

// Assembled waits until the scheduler knows so many nodes.
func Assembled(ctx context.Context, peer *Peer, count int) error {
	var out wire.NodeList
	backoff.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}.Retry(ctx, func() error {
		if err := peer.Get(ctx, "/v1/nodes", &out); err != nil {
			return err
		}
		if len(out.Nodes) < count {
			return fmt.Errorf("%d nodes of %d", len(out.Nodes), count)
		}
		return nil
	})
	return ctx.Err()
}
