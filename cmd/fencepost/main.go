// Command fencepost shows what a paused lock holder does to a row, and what a
// guard does about it; keeps a PostgreSQL database for the guards; and stands
// before a service that cannot be a guard itself:
//
//	fencepost simulate                                with embedded servers, in a few seconds
//	fencepost explore                                 in simulated time, thousands of schedules a second
//	fencepost migrate up|down|status|check|print      the tables and functions
//	fencepost marks list|show|prune|reset             what has been admitted
//	fencepost proxy                                   a guard in front of a service
//	fencepost doctor                                  what servers' settings can lose
//	fencepost run NAME -- command                     a program under a lock
//
// Each has a --help.
//
// # Exit status
//
//	0    done, or yes: the guard accepted nothing stale, and without it updates
//	     were lost; the database has everything; the resource has a mark; no
//	     check of a server failed
//	1    no: one of these is not so, and what was printed says which
//	2    nothing is known: bad flags, a server that does not answer, a run that
//	     broke, a confirmation that was not given
//	130  interrupted (128 and the signal's number); everything has been removed
//
// That of fencepost run is the program's own, or one of those in docs/run.md.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/kernel"
)

type cli struct {
	Simulate simulateCmd `cmd:"" help:"Stop a lock holder past its lease, and see what its late write does."`
	Explore  exploreCmd  `cmd:"" help:"Play thousands of faulty schedules of locks, guards and holders in simulated time, each from its seed."`
	Migrate  migrateCmd  `cmd:"" help:"Put Fencepost's tables and functions into a PostgreSQL database."`
	Marks    marksCmd    `cmd:"" help:"See the marks of a PostgreSQL database, prune them, lower one that is poisoned."`
	Proxy    proxyCmd    `cmd:"" help:"Stand before a service that cannot compare tokens itself, and refuse stale requests."`
	Doctor   doctorCmd   `cmd:"" help:"Find the settings of a Redis or PostgreSQL that let numbers fall or locks vanish."`
	Run      runCmd      `cmd:"" help:"Run a program while holding a lock: a cron job on three machines runs on one."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
	Gate     gateCmd     `cmd:"" hidden:"" help:"Becomes the program of a run; started by it."`
	Minder   minderCmd   `cmd:"" hidden:"" help:"Kills the program of a run that cannot; started by it."`
	Writer   writerCmd   `cmd:"" hidden:"" help:"One writer of a simulation; started by it."`
}

func main() {
	// A reader that has gone away is an error of a write, not the end of a
	// program that has things to remove.
	signal.Ignore(syscall.SIGPIPE)
	redis.SetLogger(silence{})
	os.Exit(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// streams are the standard ones.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run returns the exit status.
func run(args []string, std streams) int {
	parser, err := kong.New(&cli{}, kong.Name("fencepost"), kong.Writers(std.out, std.err), kong.Bind(std), kong.Vars{"faults": strings.Join(kernel.FaultNames(), ", ")},
		kong.Description("Fencepost refuses writes from a lock holder that no longer holds the lock."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 90}))
	if err != nil {
		return status(err, std.err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return status(unparsed(err), std.err)
	}
	return status(command.Run(), std.err)
}

// unparsed says where to look. The status of a run is its program's otherwise.
func unparsed(err error) error {
	command := asked(err)
	err = fmt.Errorf("%w (see %s --help)", err, command)
	if command == "fencepost run" {
		return &ranError{status: statusFailed, err: err}
	}
	return err
}

// asked is the command that the arguments have named, as far as they did.
func asked(err error) string {
	command := "fencepost"
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		for _, step := range wrong.Context.Path {
			if step.Command != nil {
				command = step.Command.FullPath()
			}
		}
	}
	return command
}

// errNo is the answer of a command, which has been told already.
var errNo = errors.New("the answer is no")

// status says on one line what went wrong.
func status(err error, out io.Writer) int {
	var stopped *interruptedError
	var ran *ranError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return 1
	case errors.As(err, &ran):
		return ran.tell(out)
	}
	fmt.Fprintln(out, "fencepost:", oneLine(err))
	if errors.As(err, &stopped) {
		return stopped.status()
	}
	return 2
}

// oneLine leaves out what an error says again, as after a second try.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}
