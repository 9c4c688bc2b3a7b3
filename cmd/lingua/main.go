// Command lingua is the Lingua Scheduler: the server, and the commands that query a running one.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes. They are part of the interface: scripts rely on them.
const (
	exitOK          = 0
	exitFailed      = 1 // the command ran and failed
	exitUsage       = 2 // the command line or the configuration is invalid
	exitUnreachable = 3 // the scheduler could not be reached
)

// cli is the command line: one field for each command.
type cli struct {
	Serve      serveCmd      `cmd:"" help:"Run the scheduler."`
	Demo       demoCmd       `cmd:"" help:"Run a scheduler with a simulated fleet and conversations, and show a live summary."`
	Talk       talkCmd       `cmd:"" help:"Stream a WAV file into a session and print the results."`
	Node       nodeCmd       `cmd:"" help:"Run a simulated node."`
	ModelHub   modelHubCmd   `cmd:"" name:"modelhub" help:"Run a stand-in for a ModelHub, for demonstrations and tests."`
	Bench      benchCmd      `cmd:"" help:"Send load to a running scheduler at a fixed rate, and report latencies and failures."`
	Nodes      nodesCmd      `cmd:"" help:"List the registered nodes, show one, or remove one."`
	Jobs       jobsCmd       `cmd:"" help:"List jobs, or show one with its attempts."`
	Waiting    waitingCmd    `cmd:"" help:"Show who waits for a slot: by tenant with its share, and request by request."`
	Tenants    tenantsCmd    `cmd:"" help:"List the tenants with their limits, and how close they are to them."`
	Directions directionsCmd `cmd:"" help:"List the directions with their nodes and slots."`
	Pools      poolsCmd      `cmd:"" help:"Show the capability pools with their nodes and slots, or one of them."`
	Events     eventsCmd     `cmd:"" help:"Show what happened to the fleet, or follow it: registrations, losses, drains, takeovers, outages."`
	Audit      auditCmd      `cmd:"" help:"Show who changed what, and which requests were denied, or follow it."`
	Instances  instancesCmd  `cmd:"" help:"List the scheduler instances that share a fleet."`
	Store      storeCmd      `cmd:"" help:"Show the shared store and its servers."`
	Stats      statsCmd      `cmd:"" help:"Show statistics of the fleet: nodes, jobs, and the use of languages."`
	Metrics    metricsCmd    `cmd:"" help:"Show what an instance has counted, and why dispatches were refused; /metrics has more, for Prometheus."`
	DLQ        dlqCmd        `cmd:"" name:"dlq" help:"List, show, replay or purge dead letters: messages between instances that could not be handled."`
	Explain    explainCmd    `cmd:"" help:"Show, node by node, how a dispatch would be decided, without dispatching."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel a job, or all open jobs that match, which are counted first."`
	Drain      drainCmd      `cmd:"" help:"Give a node no new jobs; those that it has continue."`
	Resume     resumeCmd     `cmd:"" help:"End the drain of a node."`
	Sessions   sessionsCmd   `cmd:"" help:"List the sessions, or end one."`
	Revoke     revokeCmd     `cmd:"" help:"Revoke a key, a signer's tokens, a tenant, a session or a node; list what is revoked, or lift it."`
	Keys       keysCmd       `cmd:"" help:"Make, hash and check the keys of a config file."`
	Config     configCmd     `cmd:"" help:"Check a config file, print a documented one, or let a running scheduler reload its own."`
	Health     healthCmd     `cmd:"" help:"Check that a scheduler is alive, or with --ready that it accepts work; for health checks."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// streams holds the streams and the environment of a command.
type streams struct {
	in       io.Reader // nil: empty
	out, err io.Writer
	environ  []string
	// hangups returns the signals on which serve reloads its configuration and opens its files again, and how to end them; nil: there are
	// none.
	hangups func() (<-chan os.Signal, func())
}

// usageError is an error in the command line or the configuration.
type usageError struct{ error }

func main() {
	//nolint:forbidigo // the root context of the process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the program at once
	}()
	os.Exit(execute(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, environ: os.Environ(), hangups: notifyHangups}))
}

// notifyHangups catches SIGHUP, which would end the process.
func notifyHangups() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// execute runs one command line and returns its exit code. It touches nothing of the process, so that tests can call it.
func execute(ctx context.Context, args []string, io streams) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	var c cli
	helpCode := -1
	parser, err := newParser(ctx, &c, io, func(n int) { helpCode = n })
	if err != nil {
		fmt.Fprintln(io.err, "lingua:", err)
		return exitFailed
	}
	k, err := parser.Parse(args)
	if helpCode >= 0 {
		return helpCode // kong printed the help
	}
	if err != nil {
		fmt.Fprintf(io.err, "lingua: %s\nTry: %s --help\n", err, commandPath(err))
		return exitUsage
	}
	return reportError(io.err, k.Run())
}

// newParser returns the parser of the command line. It calls exit after it printed the help.
func newParser(ctx context.Context, c *cli, io streams, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("lingua"),
		kong.Description("The control plane of a real-time speech-translation system.\n\n"+
			"Exit codes: 0 success, 1 the command failed, 2 invalid usage or configuration, 3 the scheduler cannot be reached.\n\n"+
			"Environment: LINGUA_URL sets --server (several addresses with commas for talk, node and bench), LINGUA_TOKEN sets --token, "+
			"LINGUA_CA sets --ca; lingua config reference lists the variables of serve and demo."),
		kong.Writers(io.out, io.err),
		kong.Exit(exit),
		kong.Resolvers(environmentResolver(io.environ)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(io),
	)
}

// commandPath returns the command whose arguments could not be parsed, such as "lingua config check".
func commandPath(err error) string {
	var parseErr *kong.ParseError
	if errors.As(err, &parseErr) && parseErr.Context != nil {
		if command := parseErr.Context.Selected(); command != nil {
			return command.FullPath()
		}
	}
	return "lingua"
}

// flagVariables maps flags to the environment variables that set them.
var flagVariables = map[string]string{"server": "LINGUA_URL", "token": "LINGUA_TOKEN", "ca": "LINGUA_CA"}

// environmentResolver reads the values of flags from environ. Kong itself would read the environment of the process,
// which tests cannot share.
func environmentResolver(environ []string) kong.ResolverFunc {
	return func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if name := flagVariables[flag.Name]; name != "" {
			for _, variable := range environ {
				if value, ok := strings.CutPrefix(variable, name+"="); ok && value != "" {
					return value, nil
				}
			}
		}
		return nil, nil
	}
}

// reportError prints the error of a command once and returns the exit code for it.
func reportError(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(w, "lingua:", err)
	var usage usageError
	var unreachable *unreachableError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &unreachable):
		return exitUnreachable
	}
	return exitFailed
}
