package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/lab"
)

type benchCmd struct {
	serverAddresses `group:"Target"`
	Token           string `help:"Operator key; default from LINGUA_TOKEN. Sessions get tokens that are minted with it." placeholder:"TOKEN" group:"Target"`
	NodeToken       string `help:"Token of the stand-in nodes. Default: the operator key." placeholder:"TOKEN" group:"Target"`
	Name            string `help:"The ids of nodes, sessions and requests begin with it; a node token may require a certain one." default:"bench" group:"Target"`

	Mode     string        `help:"http: dispatch over HTTP and read each job until it has ended. sockets: speak utterances into sessions over WebSockets." enum:"http,sockets" default:"http" group:"Load"`
	Rate     float64       `help:"Requests or utterances a second, whatever the scheduler does." default:"20" group:"Load"`
	Arrivals string        `help:"poisson: random intervals, as independent users make them. even: equal intervals." enum:"poisson,even" default:"poisson" group:"Load"`
	Duration time.Duration `help:"How long to measure." default:"30s" group:"Load"`
	Warmup   time.Duration `help:"How long to send load before that, without measuring." default:"5s" group:"Load"`
	Langs    []string      `help:"Direction of the load, such as en-zh, or en-US:zh-TW for tags with a hyphen; several with commas. Required with --nodes 0. Default: qaa-qab, codes for private use, which no user speaks." placeholder:"SRC-TGT" group:"Load"`
	Sessions int           `help:"Sessions that the load is spread over; 0 chooses enough for the rate." default:"0" group:"Load"`
	Speech   time.Duration `help:"Duration of an utterance, sent in real time; in mode sockets." default:"1s" group:"Load"`
	Timeout  time.Duration `help:"A request without an outcome after this time has failed." default:"60s" group:"Load"`
	Poll     time.Duration `help:"Interval at which a job is read until it has ended; in mode http. It does not affect the latencies." default:"100ms" group:"Load"`

	Nodes         int           `help:"Stand-in nodes to connect for the run; 0 uses the nodes of the scheduler." default:"4" group:"Stand-in nodes"`
	Slots         int           `help:"Slots of each stand-in node." default:"8" group:"Stand-in nodes"`
	Work          time.Duration `help:"Median duration of a job on a stand-in node." default:"200ms" group:"Stand-in nodes"`
	WorkSpread    float64       `help:"Spread of that duration: the standard deviation of its logarithm; 0 for none." default:"0.3" group:"Stand-in nodes"`
	RealLanguages bool          `help:"Allow stand-in nodes for languages that people speak, although other users of the scheduler may get their made-up results." group:"Stand-in nodes"`

	JSON      string        `help:"Write the report as JSON to a file, or to standard output with -, and then the summary to standard error." name:"json" placeholder:"FILE" group:"Report"`
	Histogram bool          `help:"Show the distribution of each latency." group:"Report"`
	MaxErrors string        `help:"Number or percentage (0.1%) of failed requests above which the exit code is 1." default:"0" group:"Report"`
	MaxLag    time.Duration `help:"The run is invalid if one request in a hundred was sent later than this, because the generator was too slow." default:"10ms" group:"Report"`
}

// Help explains the command below the summary of its flags.
func (c *benchCmd) Help() string {
	return `Sends load to a running scheduler at a fixed rate and reports how it responds.

Latencies count from when a request was due, not from when it could be sent, so that a scheduler that stalls is not measured only by the
requests that it let through. How late the generator itself was is reported as lag.

Examples:

    # a scheduler on this machine, 50 dispatches a second, with stand-in nodes
    lingua bench --rate 50

    # the same with 60 seconds of utterances over WebSockets, and a report for programs
    lingua bench --mode sockets --rate 50 --duration 60s --json report.json

    # two instances without a load balancer, with a key
    LINGUA_TOKEN=... lingua bench --url http://10.0.0.1:5010 --url http://10.0.0.2:5010

    # the fleet as it is: real nodes do the work, and are busy with it
    lingua bench --nodes 0 --langs en-zh --mode sockets --rate 5

Stand-in nodes sleep for the duration of their work and return a made-up result. By default they serve only languages that no user
speaks. All sessions and nodes of the run are closed at its end. Ctrl-C ends the load; open requests are awaited and the summary is
printed.

Exit codes: 0 success; 1 more requests failed than --max-errors allows, or the run is invalid, or it could not be made; 2 invalid usage;
3 the scheduler cannot be reached.

The summary shows the percentiles of each latency:

    dispatch  from the request to its answer or, in mode sockets, from the
              end of the utterance until a node has it
    wait      for a node with a free slot, as the scheduler reports it; in
              mode sockets
    whole     from the request, or the end of the utterance, to the result
    overhead  whole without the time that the stand-in node worked
    lag       how late the generator sent requests

--url is the same as --server.`
}

// Validate checks the flags before anything is sent.
func (c *benchCmd) Validate() error {
	if _, err := c.parseMaxErrors(); err != nil {
		return err
	}
	for _, limit := range []struct {
		flag            string
		value, min, max float64
	}{
		{"--rate", c.Rate, 0.01, 100_000},
		{"--sessions", float64(c.Sessions), 0, 100_000},
		{"--nodes", float64(c.Nodes), 0, 10_000},
		{"--slots", float64(c.Slots), 1, 2_000},
		{"--work-spread", c.WorkSpread, 0, 3},
	} {
		if math.IsNaN(limit.value) || limit.value < limit.min || limit.value > limit.max {
			return fmt.Errorf("%s: must be between %v and %v, not %v", limit.flag, limit.min, limit.max, limit.value)
		}
	}
	for _, limit := range []struct {
		flag            string
		value, min, max time.Duration
	}{
		{"--duration", c.Duration, 100 * time.Millisecond, 24 * time.Hour},
		{"--warmup", c.Warmup, 0, time.Hour},
		{"--speech", c.Speech, 100 * time.Millisecond, time.Minute},
		{"--timeout", c.Timeout, 100 * time.Millisecond, 10 * time.Minute},
		{"--poll", c.Poll, time.Millisecond, time.Minute},
		{"--work", c.Work, 0, time.Minute},
		{"--max-lag", c.MaxLag, 0, time.Minute},
	} {
		if limit.value < limit.min || limit.value > limit.max {
			return fmt.Errorf("%s: must be between %v and %v, not %v", limit.flag, limit.min, limit.max, limit.value)
		}
	}
	if !core.ValidID(c.Name) || len(c.Name) > maxBenchName {
		return fmt.Errorf("--name: must be 1 to %d of A-Z a-z 0-9 . _ : -, not %q", maxBenchName, c.Name)
	}
	_, err := c.config()
	return err
}

// maxBenchName is the maximum length of --name: ids that begin with it have at most 128 characters.
const maxBenchName = 64

// config returns the configuration of the run, without the addresses.
func (c *benchCmd) config() (lab.LoadConfig, error) {
	cfg := lab.LoadConfig{
		Token: c.Token, NodeToken: c.NodeToken, Name: c.Name,
		Mode: lab.Mode(c.Mode), Rate: c.Rate, Even: c.Arrivals == "even", Warmup: c.Warmup, Duration: c.Duration,
		Sessions: c.Sessions, Speech: c.Speech, Timeout: c.Timeout, Poll: c.Poll, MaxLag: c.MaxLag,
		Nodes: c.Nodes, Slots: c.Slots, Work: c.Work, WorkSpread: c.WorkSpread, RealLanguages: c.RealLanguages,
		Version: version(),
	}
	for _, text := range c.Langs {
		pair, err := lab.ParsePair(text)
		if err != nil {
			return cfg, fmt.Errorf("--langs: %w", err)
		}
		cfg.Pairs = append(cfg.Pairs, pair)
	}
	switch {
	case len(cfg.Pairs) == 0 && c.Nodes == 0:
		return cfg, errors.New("--langs: is required with --nodes 0; lingua directions lists those of the fleet")
	case len(cfg.Pairs) == 0:
		cfg.Pairs = []lab.Pair{lab.PrivatePair}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, fmt.Errorf("--sessions: %w", err)
	}
	return cfg, nil
}

// errorLimit is the value of --max-errors.
type errorLimit struct {
	value   float64
	percent bool
}

func (c *benchCmd) parseMaxErrors() (errorLimit, error) {
	text, percent := strings.CutSuffix(c.MaxErrors, "%")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v < 0 || percent && v > 100 {
		return errorLimit{}, fmt.Errorf("--max-errors: must be a number such as 10, or a percentage such as 0.1%%, not %q", c.MaxErrors)
	}
	return errorLimit{v, percent}, nil
}

// exceeded reports whether too many of the requests failed.
func (l errorLimit) exceeded(failed, all int) bool {
	if l.percent {
		return float64(failed) > l.value/100*float64(all)
	}
	return float64(failed) > l.value
}

// Run makes the run and prints its report.
func (c *benchCmd) Run(ctx context.Context, io streams) error {
	cfg, err := c.config()
	if err != nil {
		return usageError{err}
	}
	if cfg.URLs, err = c.urls(); err != nil {
		return err
	}
	if cfg.TLS, err = c.tlsConfig(); err != nil {
		return err
	}
	if err := c.checkJSON(); err != nil {
		return usageError{err}
	}
	progress := newProgressLine(io.err)
	cfg.OnProgress = progress.show
	report, err := lab.RunLoad(ctx, cfg)
	progress.clear()
	if err != nil {
		return c.runError(ctx, err)
	}
	if err := c.write(report, io); err != nil {
		return err
	}
	return c.verdict(report)
}

// checkJSON checks that the file of --json can be written, so that the report of a long run is not lost.
func (c *benchCmd) checkJSON() error {
	if c.JSON == "" || c.JSON == "-" {
		return nil
	}
	f, err := os.OpenFile(c.JSON, os.O_WRONLY|os.O_CREATE, reportPermissions)
	if err != nil {
		return err
	}
	return f.Close()
}

// reportPermissions are the permissions of the file of --json. The report contains no secret.
const reportPermissions = 0o644

// write writes the report in all its forms.
func (c *benchCmd) write(report *lab.Report, io streams) error {
	text := io.out
	if c.JSON == "-" {
		text = io.err
	}
	report.WriteText(text, c.Histogram)
	if c.JSON == "" {
		return nil
	}
	var body bytes.Buffer
	if err := report.WriteJSON(&body); err != nil {
		return err
	}
	if c.JSON == "-" {
		_, err := body.WriteTo(io.out)
		return err
	}
	return os.WriteFile(c.JSON, body.Bytes(), reportPermissions)
}

// runError converts the error of a run that could not be made.
func (c *benchCmd) runError(ctx context.Context, err error) error {
	var unreachable *lab.UnreachableError
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case errors.As(err, &unreachable):
		return &unreachableError{url: unreachable.URL, cause: unreachable.Err}
	case errors.Is(err, lab.ErrUnsafe):
		return usageError{fmt.Errorf("%w\nLeave --langs out: the stand-in nodes then serve languages that no user speaks. Or use the "+
			"nodes of the scheduler with --nodes 0. "+
			"If no user of this scheduler can be affected, add --real-languages", err)}
	}
	return err
}

// verdict returns an error if the run is invalid, or if too many requests failed.
func (c *benchCmd) verdict(report *lab.Report) error {
	q := &report.Requests
	limit, err := c.parseMaxErrors()
	switch {
	case err != nil:
		return err
	case limit.exceeded(q.Failed, q.Planned):
		return fmt.Errorf("%d of %d requests failed, more than --max-errors %s", q.Failed, q.Planned, c.MaxErrors)
	case !report.Valid:
		return errors.New("the run is invalid: " + strings.Join(report.Invalid, "; "))
	}
	return nil
}

// progressLine shows the progress of a run: one line that is rewritten on a terminal, a line for each report elsewhere.
type progressLine struct {
	out         io.Writer
	interactive bool
}

func newProgressLine(out io.Writer) *progressLine {
	return &progressLine{out: out, interactive: isTerminal(out)}
}

func (p *progressLine) show(state lab.Progress) {
	if !p.interactive {
		fmt.Fprintln(p.out, state)
		return
	}
	fmt.Fprint(p.out, "\r\x1b[K", strings.TrimSuffix(truncateLines(state.String()), "\n"))
}

// clear removes the line from a terminal.
func (p *progressLine) clear() {
	if p.interactive {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
