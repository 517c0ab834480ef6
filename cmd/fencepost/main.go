// Command fencepost shows what a paused lock holder does to a row, and what a guard does
// about it. It also manages the guards' tables in a database, guards a service that cannot
// compare tokens itself, checks the settings of servers, and runs programs under a lock:
//
//	fencepost simulate                                with embedded servers, in a few seconds
//	fencepost migrate up|down|status|check|print      the tables and functions
//	fencepost marks list|show|prune|reset             the highest token of each resource
//	fencepost locks list|show|break                   who has a lock, who waits; depose a holder
//	fencepost serve                                   a lock service over HTTP
//	fencepost proxy                                   a guard in front of a service
//	fencepost doctor                                  the settings of servers
//	fencepost run NAME -- command                     a program under a lock
//	fencepost kubernetes policy                       the fence for objects of Kubernetes
//	fencepost help|version
//
// Each command has a --help.
//
// # Exit status
//
//	0    the command succeeded, or the answer is yes: the guard accepted no stale
//	     write, and without it updates were lost; the database is complete; the
//	     resource has a mark, or the lock a holder; no check of a server failed
//	1    the answer is no. The command has printed why
//	2    there is no answer: wrong flags, a server that does not answer, a round that
//	     failed, a confirmation that was not given
//	130  interrupted (128 and the signal's number). The command has removed what it made
//	141  the reader of a pipe has closed it. Nothing is printed about that
//
// The exit status of fencepost run is its program's, or one that docs/run.md lists.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/doctor"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/kubernetes"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/locks"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/marks"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/migrate"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/proxy"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/run"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/serve"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/simulate"
	"github.com/fencepost/fencepost/cmd/fencepost/internal/usage"
	"github.com/fencepost/fencepost/internal/cli"
)

type commands struct {
	NoColor     usage.NoColor     `help:"Print no colors. The variable NO_COLOR does the same."`
	VersionFlag usage.VersionFlag `name:"version" help:"Print the version."`

	Simulate   simulate.Cmd     `cmd:"" help:"Stop a lock holder past its lease, and show what its late write does."`
	Migrate    migrate.Cmd      `cmd:"" help:"Put Fencepost's tables and functions into a database."`
	Marks      marks.Cmd        `cmd:"" help:"List and show the marks of a database, prune them, lower one that is too high."`
	Locks      locks.Cmd        `cmd:"" help:"List and show the locks of a server, depose the holder of one that is stuck."`
	Serve      serve.Cmd        `cmd:"" help:"Serve the locks of a server over HTTP, and a page for operators."`
	Proxy      proxy.Cmd        `cmd:"" help:"Refuse stale requests to a service that cannot compare tokens itself."`
	Doctor     doctor.Cmd       `cmd:"" help:"Find the settings of servers with which numbers can fall or locks can vanish."`
	Run        run.Cmd          `cmd:"" help:"Run a program while holding a lock, for example a cron job that several machines have and one may run."`
	Kubernetes kubernetes.Cmd   `cmd:"" help:"Print the policies that make Kubernetes refuse the stale writes of a leader to objects."`
	HelpCmd    usage.HelpCmd    `cmd:"" name:"help" help:"Print the help of a command."`
	Version    usage.VersionCmd `cmd:"" help:"Print the version."`

	Launcher run.LauncherCmd    `cmd:"" name:"launch" hidden:"" help:"Becomes the program of a run. The run starts it."`
	Watchdog run.WatchdogCmd    `cmd:"" name:"watchdog" hidden:"" help:"Kills the program of a run that cannot. The run starts it."`
	Writer   simulate.WriterCmd `cmd:"" hidden:"" help:"One writer of a simulation. The simulation starts it."`
}

// Help is printed by fencepost --help below the usage line.
func (commands) Help() string {
	return `Each flag can be set by an environment variable, which its description names, except --help, --version, --confirm, and ` +
		`--postgres and --mysql of migrate print. The flag takes precedence. ` +
		`Prefer the variable for a URL with a password: every user of the machine can read the flags of a process. ` +
		`Durations are written as 90s, 1h30m, 30d or 2w.

The exit status is 0 if the command succeeded, 1 if the answer is no, 2 if there is no answer, as after wrong flags or if a server does ` +
		`not answer, and 128 and the signal's number after a signal. That of run is the program's.

Documentation and issues: https://github.com/fencepost/fencepost

Examples:
  fencepost simulate
  fencepost help run`
}

func main() {
	// If the reader of a pipe closes it, a write returns EPIPE, and the command still
	// removes what it made. SIGPIPE would end it before that.
	signal.Ignore(syscall.SIGPIPE)
	redis.SetLogger(discard{})
	os.Exit(dispatch(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// dispatch runs the command that args name, and returns the exit status.
func dispatch(args []string, std cli.Streams) int {
	parser, err := newParser(std)
	if err != nil {
		return status(err, std.Err)
	}
	command, err := parser.Parse(args)
	if err == nil {
		err = command.Run()
	}
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && outputError(err) == nil {
		err = usageError(wrong, std)
	}
	return status(err, std.Err)
}

func newParser(std cli.Streams) (*kong.Kong, error) {
	return kong.New(&commands{}, append(usage.Options(), kong.Name("fencepost"), kong.Writers(std.Out, std.Err), kong.Bind(std),
		kong.Description("Fencepost refuses writes from a lock holder that no longer holds the lock."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 90}))...)
}

// status is [cli.Status], but a run has exit statuses of its own. If the reader of a pipe
// has closed it, status prints nothing, and returns the status of a process that SIGPIPE
// ended.
func status(err error, out io.Writer) int {
	var ended *run.ExitError
	switch {
	case errors.As(err, &ended):
		return ended.Print(out)
	case errors.Is(outputError(err), syscall.EPIPE):
		return 128 + int(syscall.SIGPIPE)
	}
	return cli.Status("fencepost", err, out)
}

// outputError returns the failed write to standard output that err contains, or nil. Kong
// returns that of a --help as a [kong.ParseError].
func outputError(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) && failed.Op == "write" && failed.Path == os.Stdout.Name() {
		return failed
	}
	return nil
}

// usageError returns wrong with the command whose --help has the right usage. If only the
// name of a command is missing, it prints that help. A run has its own exit status: 2 could
// be the status of its program.
func usageError(wrong *kong.ParseError, std cli.Streams) error {
	command := "fencepost"
	if node := wrong.Context.Selected(); node != nil {
		command = node.FullPath()
	}
	err := fmt.Errorf("%w (see %s --help)", wrong, command)
	switch {
	case usage.IsCommandMissing(wrong):
		wrong.Context.Stdout = std.Err
		return errors.Join(wrong.Context.PrintUsage(false), err)
	case command == "fencepost run":
		return &run.ExitError{Status: run.StatusFailed, Err: err}
	}
	return err
}

// discard is the logger of go-redis, whose newer versions log each failed dial. A command
// returns that error too, and it is printed once.
type discard struct{}

func (discard) Printf(context.Context, string, ...any) {}
