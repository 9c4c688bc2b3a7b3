package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/sim"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

type nodeCmd struct {
	several
	Sim   bool     `help:"Be a node that only pretends to work. (A real one is written with the Go package node.)"`
	ID    string   `help:"The node's name; one is made if it is absent." placeholder:"ID"`
	Token string   `help:"The node's token; LINGUA_TOKEN stands for it." placeholder:"TOKEN"`
	Langs []string `help:"Languages it recognises, translates among and speaks." default:"en,es,zh,de,fr,ja" placeholder:"LANG,…"`
	Slots int      `help:"How many jobs it does at once." default:"4"`

	Latency time.Duration `help:"How long a job takes, as the median." default:"400ms"`
	Spread  float64       `help:"How much that varies: the deviation of its logarithm, 0 for not at all." default:"0.3"`
	Fail    float64       `help:"The part of jobs that fail, from 0 to 1." default:"0"`
	Busy    float64       `help:"The part of jobs that are refused as NODE_BUSY." default:"0"`
	Lose    float64       `help:"The part of jobs that are taken and never finished." default:"0"`

	LogLevel string `help:"debug, info, warn or error." default:"info" placeholder:"LEVEL"`
}

// Validate checks the flags before anything is started.
func (c *nodeCmd) Validate() error {
	for name, part := range map[string]float64{"--fail": c.Fail, "--busy": c.Busy, "--lose": c.Lose} {
		if part < 0 || part > 1 {
			return fmt.Errorf("%s: must be between 0 and 1, not %v", name, part)
		}
	}
	switch {
	case !c.Sim:
		return errors.New("only simulated nodes can be run from here: add --sim; a real one is written with the Go package node")
	case c.Slots < 1 || c.Slots > 10_000:
		return fmt.Errorf("--slots: must be between 1 and 10000, not %d", c.Slots)
	case c.Latency < 0:
		return fmt.Errorf("--latency: must not be negative, as %s is", c.Latency)
	case c.Spread < 0 || c.Spread > 3:
		return fmt.Errorf("--spread: must be between 0 and 3, not %v", c.Spread)
	}
	return nil
}

// Run is a node until it is interrupted.
func (c *nodeCmd) Run(ctx context.Context, io streams) error {
	urls, err := c.addresses()
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(io.err, c.LogLevel, "text")
	if err != nil {
		return usageError{err}
	}
	work := &sim.Worker{JobDuration: sim.LogNormal(c.Latency, c.Spread), Reject: c.Busy, Hang: c.Lose, Fail: c.Fail}
	err = node.Run(ctx, node.Config{
		URLs: urls, ID: c.ID, Token: c.Token, Slots: c.Slots, Log: log,
		Declaration: wire.Declaration{SemanticLangs: c.Langs, TTSLangs: c.Langs},
	}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		began := time.Now()
		result, err := work.Do(ctx, job)
		log.Info("job ended", "job_id", job.ID, "attempt_id", job.Attempt, "done", err == nil, "took_ms", time.Since(began).Milliseconds())
		return result, err
	})
	var refused *node.RefusedError
	if errors.As(err, &refused) && refused.Err != nil {
		return refused.Err
	}
	return err
}
