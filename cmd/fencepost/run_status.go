package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"

	"github.com/fencepost/fencepost/token"
)

// The exit statuses that are not the command's own. 124 to 127 are those of
// timeout(1), env(1) and the shells.
const (
	statusLost     = 123
	statusTooLong  = 124
	statusFailed   = 125
	statusNoStart  = 126
	statusNotFound = 127
)

// ranError is how a run ended. Without err there is nothing to say: cron sends
// what is said by mail.
type ranError struct {
	status int
	err    error
}

func (e *ranError) Error() string { return fmt.Sprintf("status %d: %v", e.status, e.err) }

// Unwrap returns what is to be said.
func (e *ranError) Unwrap() error { return e.err }

// tell says it, and returns the exit status.
func (e *ranError) tell(out io.Writer) int {
	if e.err != nil {
		fmt.Fprintln(out, "fencepost:", oneLine(e.err))
	}
	return e.status
}

// end returns how a run ended, or nil where it ended well.
func (c *runCmd) end(status int, err error) error {
	if err != nil {
		err = fmt.Errorf("run %s: %w", c.Name, err)
	}
	if status == 0 && err == nil {
		return nil
	}
	return &ranError{status: status, err: err}
}

// refused is for a lock that was not acquired.
func (c *runCmd) refused(waiting context.Context, std streams, err error) error {
	var stopped *interruptedError
	switch {
	case errors.As(context.Cause(waiting), &stopped):
		return c.end(stopped.status(), stopped)
	case errors.Is(err, token.ErrHeld):
		c.say(std, "%v", err)
		return c.end(c.HeldStatus, nil)
	}
	return c.end(statusFailed, err)
}

// unstartable is for a command that did not start.
func (c *runCmd) unstartable(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return c.end(statusNotFound, err)
	}
	return c.end(statusNoStart, err)
}

// say is heard with --verbose.
func (c *runCmd) say(std streams, format string, args ...any) {
	if c.Verbose {
		c.warn(std, format, args...)
	}
}

func (c *runCmd) warn(std streams, format string, args ...any) {
	fmt.Fprintln(std.err, "fencepost:", oneLine(fmt.Errorf("run %s: "+format, append([]any{c.Name}, args...)...)))
}
