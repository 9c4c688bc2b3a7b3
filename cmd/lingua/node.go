package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

type nodeCmd struct {
	serverAddresses
	Sim     bool     `help:"Simulate the work; required. (Real nodes are written with the Go package node.)"`
	ID      string   `help:"Node ID; a random one by default." placeholder:"ID"`
	Token   string   `help:"Token of the node; default from LINGUA_TOKEN." placeholder:"TOKEN"`
	Langs   []string `help:"Languages that it recognises, translates and speaks." default:"en,es,zh,de,fr,ja" placeholder:"LANG,…"`
	Slots   int      `help:"Maximum number of concurrent jobs." default:"4"`
	Service []string `help:"An installed service, with its version and its type: asr, semantic, nmt, tts or another; may be repeated." placeholder:"ID[@VERSION][=TYPE]"`

	Latency time.Duration `help:"Median duration of a job." default:"400ms"`
	Spread  float64       `help:"Spread of the duration: the standard deviation of its logarithm; 0 for none." default:"0.3"`
	Fail    float64       `help:"Fraction of jobs that fail, from 0 to 1." default:"0"`
	Busy    float64       `help:"Fraction of jobs that are refused with NODE_BUSY, from 0 to 1." default:"0"`
	Lose    float64       `help:"Fraction of jobs that are acknowledged and never finished, from 0 to 1." default:"0"`

	LogLevel string `help:"Log level: debug, info, warn or error." default:"info" placeholder:"LEVEL"`
}

// Validate checks the flags before anything is started.
func (c *nodeCmd) Validate() error {
	for name, fraction := range map[string]float64{"--fail": c.Fail, "--busy": c.Busy, "--lose": c.Lose} {
		if fraction < 0 || fraction > 1 {
			return fmt.Errorf("%s: must be between 0 and 1, not %v", name, fraction)
		}
	}
	switch {
	case !c.Sim:
		return errors.New("only simulated nodes can be run: add --sim; real nodes are written with the Go package node")
	case c.Slots < 1 || c.Slots > 10_000:
		return fmt.Errorf("--slots: must be between 1 and 10000, not %d", c.Slots)
	case c.Latency < 0:
		return fmt.Errorf("--latency: must be 0 or more, not %s", c.Latency)
	case c.Spread < 0 || c.Spread > 3:
		return fmt.Errorf("--spread: must be between 0 and 3, not %v", c.Spread)
	}
	return nil
}

// services are the installed services, all of which are ready.
func (c *nodeCmd) services() []wire.Service {
	var list []wire.Service
	for _, text := range c.Service {
		name, kind, _ := strings.Cut(text, "=")
		id, version, _ := strings.Cut(name, "@")
		list = append(list, wire.Service{ServiceID: id, Version: version, Type: kind, Status: "ready"})
	}
	return list
}

// Run runs a simulated node until it is interrupted.
func (c *nodeCmd) Run(ctx context.Context, io streams) error {
	urls, err := c.urls()
	if err != nil {
		return err
	}
	httpClient, err := c.httpClient()
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(io.err, c.LogLevel, "text")
	if err != nil {
		return usageError{err}
	}
	worker := &lab.Worker{JobDuration: lab.LogNormal(c.Latency, c.Spread), Reject: c.Busy, Hang: c.Lose, Fail: c.Fail}
	err = node.Run(ctx, node.Config{
		URLs: urls, ID: c.ID, Token: c.Token, Slots: c.Slots, Log: log, HTTPClient: httpClient,
		Declaration: wire.Declaration{SemanticLangs: c.Langs, TTSLangs: c.Langs, InstalledServices: c.services()},
	}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		started := time.Now()
		result, err := worker.Do(ctx, job)
		log.Info("job ended", "job_id", job.ID, "attempt_id", job.Attempt, "done", err == nil, "took_ms",
			time.Since(started).Milliseconds())
		return result, err
	})
	var refused *node.RefusedError
	if errors.As(err, &refused) && refused.Err != nil {
		return refused.Err
	}
	return err
}
