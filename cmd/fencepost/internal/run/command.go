// Package run is the command fencepost run: it runs a program while it holds a lock, and
// ends the program before another holder can acquire the lock.
//
// A run has up to three processes. The first waits for the lock, holds it and renews its
// lease. The watchdog, which is started before the wait, ends the program if the first
// process cannot, because it was killed or stopped. The program itself begins as a
// launcher, which waits until the watchdog has the program's process group.
//
//	command.go          the flags; the exit statuses 123 to 127, and --held-status; which
//	                    signals are received, and which stay ignored; --verbose
//	lock.go             the lease and its safety margin; its end; FENCING_TOKEN and
//	                    the program's other variables, and which are removed; the release
//	program.go          the program's process group: start, signals, SIGKILL after --grace;
//	                    --at-most; a lost lease; the end of the watchdog; zombies
//	jobcontrol.go       the terminal: Ctrl-Z does not stop a run; the program gets the
//	                    foreground when it reads the terminal, and the run takes it back
//	watchdog.go         the second process, which kills the program when the lease is over or
//	                    the first process has died; how the lease's end reaches it
//	launcher.go         the process that becomes the program when the watchdog has its process
//	                    group; a program that cannot be executed
//	pdeathsig_linux.go  the kernel kills the program if the run's process dies; the run adopts
//	                    the orphans of the program; the binary that runs
//	pdeathsig_other.go  other systems: the binary by its path, and neither of the others
//	program_other.go    systems without process groups, where each run fails
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/token"
)

// Cmd is the command fencepost run.
type Cmd struct {
	connect.Locks
	Prefix  string        `placeholder:"PREFIX" help:"The prefix of the keys in Redis or etcd, by default fencepost."`
	TTL     time.Duration `name:"ttl" default:"30s" help:"How long the lock lasts if this machine fails. It is renewed while the program runs."`
	Wait    time.Duration `placeholder:"DURATION" help:"How long to wait for a lock that is held. By default the run ends at once."`
	AtLeast time.Duration `placeholder:"DURATION" help:"Hold the lock at least this long, even if the program ends earlier, so that a machine whose clock is behind does not run it again."`
	AtMost  time.Duration `placeholder:"DURATION" help:"Stop the program after this time. By default it has no limit."`
	Grace   time.Duration `placeholder:"DURATION" help:"How long the program may take to end between SIGTERM and SIGKILL: at most a fifth of --ttl, by default a tenth."`

	HeldStatus int  `default:"75" placeholder:"N" help:"The exit status if another holder has the lock (${default})."`
	Verbose    bool `short:"v" help:"Print the lock's holder, and when the lock is acquired and released."`

	Name    string     `arg:"" help:"The name of the lock, as job/report."`
	Command []argument `arg:"" passthrough:"" help:"The program and its arguments, behind --."`
}

type argument string

// Decode is called by kong, whose own conversion goes through JSON, which changes arguments
// that are no UTF-8.
func (a *argument) Decode(ctx *kong.DecodeContext) error {
	*a = argument(ctx.Scan.Pop().String())
	return nil
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `The program gets its token in the variables FENCING_TOKEN (for the header Fencing-Token), FENCING_RESOURCE, FENCING_NUMBER and ` +
		`FENCING_HOLDER. It is stopped before another holder can acquire the lock. docs/run.md lists the limits of that.

The exit status is the program's, or 75 if another holder has the lock, 123 if the lock was lost or the watchdog has ended, 124 if ` +
		`--at-most has passed, 125 if the lock could not be acquired, 126 if the program cannot be started, and 127 if there is no such program.

Examples:
  fencepost run --redis redis://locks:6379 job/report -- /usr/local/bin/report --daily
  FENCEPOST_REDIS_URL=redis://:secret@locks:6379 fencepost run job/report -- sh -c 'echo "$FENCING_TOKEN"'
  fencepost run --postgres postgres://db/locks --wait 10m --at-most 1h30m job/report -- report`
}

// Run is called by kong.
func (c *Cmd) Run(std cli.Streams) error {
	if err := c.check(); err != nil {
		return c.exit(StatusFailed, err)
	}
	signals := exitSignals()
	waiting, handOver := cancelledBy(signals)
	store, err := c.Open(waiting, application(c.Name), c.Prefix)
	if err != nil {
		return c.notAcquired(waiting, std, err)
	}
	defer store.Shutdown()
	if c.Wait > 0 {
		c.verbosef(std, "waiting for the lock, for %s at most", c.Wait)
	}
	// It is started before the wait: a deploy can replace the binary's file meanwhile.
	watchdog, err := startWatchdog()
	if err != nil {
		return c.exit(StatusFailed, err)
	}
	held, err := c.acquire(waiting, store, watchdog)
	handOver()
	if err != nil {
		watchdog.stop()
		return c.notAcquired(waiting, std, err)
	}
	c.verbosef(std, "%s is held by %s", held.lease.Token(), held.lease.Token().Holder)
	ended := held.work(std, signals)
	held.release(std)
	return ended
}

func (c *Cmd) check() error {
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if c.Grace == 0 {
		c.Grace = c.TTL / 10
	}
	switch {
	case errNoGroups != nil:
		return errNoGroups
	case len(c.Command) == 0:
		return errors.New("no command: give the program behind --")
	case c.Grace > c.TTL/5:
		return fmt.Errorf("--grace: %s: must be at most a fifth of --ttl, %s", c.Grace, c.TTL/5)
	case c.HeldStatus < 0 || c.HeldStatus > 255:
		return fmt.Errorf("--held-status: %d: must be 0 to 255", c.HeldStatus)
	}
	return nil
}

// The exit statuses that are not the program's own. Those from 124 to 127 are the same as
// of timeout(1), env(1) and the shells. StatusFailed is also that of wrong flags.
const (
	statusLost     = 123
	statusTooLong  = 124
	StatusFailed   = 125
	statusNoStart  = 126
	statusNotFound = 127
)

// ExitError is how a run ended. If Err is nil, nothing is printed: cron sends what a job
// prints by mail.
type ExitError struct {
	Status int
	Err    error // printed, unless it is nil
}

func (e *ExitError) Error() string { return fmt.Sprintf("status %d: %v", e.Status, e.Err) }

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Print prints Err, unless it is nil, and returns the exit status.
func (e *ExitError) Print(out io.Writer) int {
	if e.Err != nil {
		fmt.Fprintln(out, "fencepost:", cli.OneLine(e.Err))
	}
	return e.Status
}

// exit returns how a run ended, or nil if status is 0 and err is nil.
func (c *Cmd) exit(status int, err error) error {
	if err != nil {
		err = fmt.Errorf("run %s: %w", c.Name, err)
	}
	if status == 0 && err == nil {
		return nil
	}
	return &ExitError{Status: status, Err: err}
}

// notAcquired returns how a run ends if the lock was not acquired.
func (c *Cmd) notAcquired(waiting context.Context, std cli.Streams, err error) error {
	var stopped *cli.InterruptedError
	switch {
	case errors.As(context.Cause(waiting), &stopped):
		return c.exit(stopped.ExitStatus(), stopped)
	case errors.Is(err, token.ErrHeld):
		c.verbosef(std, "%v", err)
		return c.exit(c.HeldStatus, nil)
	}
	return c.exit(StatusFailed, connect.NotMigrated(c.Schema, err))
}

// notStarted returns how a run ends if its program did not start.
func (c *Cmd) notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return c.exit(statusNotFound, err)
	}
	return c.exit(statusNoStart, err)
}

// verbosef prints if --verbose is set.
func (c *Cmd) verbosef(std cli.Streams, format string, args ...any) {
	if c.Verbose {
		c.warnf(std, format, args...)
	}
}

func (c *Cmd) warnf(std cli.Streams, format string, args ...any) {
	fmt.Fprintln(std.Err, "fencepost:", cli.OneLine(fmt.Errorf("run %s: "+format, append([]any{c.Name}, args...)...)))
}

// exitSignals returns the signals that end a program. If a signal was ignored when this
// process started, as by nohup or by a shell in its background, it stays ignored, and the
// program inherits that.
func exitSignals() <-chan os.Signal {
	// SIGPIPE is received and dropped. If it were ignored, the program would inherit
	// that, and would not end when the reader of its output has.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// cancelledBy returns a context that the first of signals ends, until handOver is
// called. The caller receives the signals that come later.
func cancelledBy(signals <-chan os.Signal) (ctx context.Context, handOver func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case s := <-signals:
			cancel(&cli.InterruptedError{Signal: s})
		case <-stop:
		}
	}()
	return ctx, func() { close(stop); <-stopped }
}
