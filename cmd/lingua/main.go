// Command lingua is the Lingua Scheduler: the server, and the tools to look at one that runs.
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
	exitFailed      = 1 // it was tried and did not work
	exitUsage       = 2 // the command line or the configuration is wrong
	exitUnreachable = 3 // the scheduler could not be reached
)

// cli is the command line: one field for each command.
type cli struct {
	Serve     serveCmd     `cmd:"" help:"Run the scheduler."`
	Demo      demoCmd      `cmd:"" help:"Run a scheduler with a simulated fleet and conversations, and watch it."`
	Talk      talkCmd      `cmd:"" help:"Speak a sound file into a session and print what comes back."`
	Node      nodeCmd      `cmd:"" help:"Run a simulated node."`
	Nodes     nodesCmd     `cmd:"" help:"List the nodes of a running scheduler, or show one."`
	Jobs      jobsCmd      `cmd:"" help:"List the jobs of a running scheduler, or show one."`
	Pools     poolsCmd     `cmd:"" help:"List the directions and how well each is served."`
	Instances instancesCmd `cmd:"" help:"List the schedulers that share a fleet."`
	DLQ       dlqCmd       `cmd:"" name:"dlq" help:"Look at dead letters between schedulers, try them again, or drop them."`
	Explain   explainCmd   `cmd:"" help:"Ask, node by node, what would become of a dispatch."`
	Drain     drainCmd     `cmd:"" help:"Give a node nothing new; it keeps what it has."`
	Resume    resumeCmd    `cmd:"" help:"Take a drain back."`
	Config    configCmd    `cmd:"" help:"Check a config file, or print a documented one."`
	Health    healthCmd    `cmd:"" help:"Say whether a scheduler is alive, or with --ready whether it takes work; for health checks."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// streams is where a command reads and writes.
type streams struct {
	out, err io.Writer
	environ  []string
}

// usageError is a mistake in how the program was called or configured.
type usageError struct{ error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the root of all
	go func() {
		<-ctx.Done()
		stop() // a second Ctrl-C ends the program at once
	}()
	os.Exit(run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr, environ: os.Environ()}))
}

// run is the program without its process, so that tests can call it.
func run(ctx context.Context, args []string, io streams) int {
	if len(args) == 0 {
		args = []string{"--help"} // whoever says nothing wants to know what there is to say
	}
	var c cli
	code := -1
	parser, err := kong.New(&c,
		kong.Name("lingua"),
		kong.Description("The control plane of a real-time speech-translation system.\n\n"+
			"Exit codes: 0 done, 1 it was tried and did not work, 2 wrong usage or configuration, 3 the scheduler cannot be reached.\n\n"+
			"Environment: LINGUA_URL is the scheduler to ask, as with --server (for talk and node perhaps several, with commas), and LINGUA_TOKEN the credential, as with --token; lingua config reference lists the variables of serve and demo."),
		kong.Writers(io.out, io.err),
		kong.Exit(func(n int) { code = n }),
		kong.Resolvers(fromEnvironment(io.environ)),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(io),
	)
	if err != nil {
		fmt.Fprintln(io.err, "lingua:", err)
		return exitFailed
	}
	k, err := parser.Parse(args)
	if code >= 0 {
		return code // help was asked for and given
	}
	if err != nil {
		fmt.Fprintf(io.err, "lingua: %s\nTry: %s --help\n", err, attempted(err))
		return exitUsage
	}
	return report(io.err, k.Run())
}

// attempted is the command that a wrong command line was about.
func attempted(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil {
		if command := wrong.Context.Selected(); command != nil {
			return command.FullPath()
		}
	}
	return "lingua"
}

// variables stand for flags.
var variables = map[string]string{"server": "LINGUA_URL", "token": "LINGUA_TOKEN"}

// fromEnvironment lets them. It is not left to the library, which reads the environment of the process and not that of
// the call.
func fromEnvironment(environ []string) kong.ResolverFunc {
	return func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		if name := variables[flag.Name]; name != "" {
			for _, variable := range environ {
				if value, ok := strings.CutPrefix(variable, name+"="); ok && value != "" {
					return value, nil
				}
			}
		}
		return nil, nil
	}
}

// report prints what went wrong, once, and chooses the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(w, "lingua:", err)
	var usage usageError
	var away *unreachableError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &away):
		return exitUnreachable
	}
	return exitFailed
}
