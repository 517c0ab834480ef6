// Package cli has what the command fencepost and the lab's programs share: the standard
// streams, durations, colors, exit statuses, signals, and the page that --html writes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// Streams are the standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ErrNo is returned if the answer of a command is no. The command has printed it.
var ErrNo = errors.New("the answer is no")

// Status prints err on one line, unless it is nil or [ErrNo], and returns the exit status: 0
// for nil, 1 for ErrNo, 128 and the signal's number for an [*InterruptedError], and 2 for
// any other error.
func Status(program string, err error, out io.Writer) int {
	var interrupted *InterruptedError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrNo):
		return 1
	}
	fmt.Fprintf(out, "%s: %s\n", program, OneLine(err))
	if errors.As(err, &interrupted) {
		return interrupted.ExitStatus()
	}
	return 2
}

// OneLine returns the text of err on one line, without passwords and without repeated lines,
// as from a second attempt.
func OneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return Redacted(strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": "))
}

// InterruptedError is the cause of a context that a signal ended.
type InterruptedError struct{ Signal os.Signal }

func (e *InterruptedError) Error() string {
	return "ended by signal: " + e.Signal.String()
}

// ExitStatus is the status with which shells report the end by this signal.
func (e *InterruptedError) ExitStatus() int {
	if s, ok := e.Signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 130
}

// UntilSignal returns a context that the first signal ends, with an [*InterruptedError] as its
// cause. Later signals are ignored, so that the command can remove what it made.
func UntilSignal(ctx context.Context) (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as it is by nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case s := <-signals:
			cancel(&InterruptedError{Signal: s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// secrets match the parts of a message that can have a password. Their groups are the text
// before and behind it, which stays. Kong's errors quote arguments, pgx's errors quote
// what it parses as a host, and Redis's errors quote an AUTH that it does not support.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`([[:alpha:]][[:alnum:]+.-]*://)\S*(@)`),
	regexp.MustCompile(`([^\s:"'=]+:)\S+(@(?:[[:alnum:]]*\(|(?:tcp|unix)?/))`), // a DSN of MySQL
	regexp.MustCompile(`(?i)(pass(?:word|wd|phrase)?\s*=\s*)(?:'(?:\\.|[^'\\])*'?|(?:\\.|[^\s\\])+)`),
	regexp.MustCompile(`(with args beginning with:).*`),
}

// Redacted returns text without the passwords of the URLs and settings in it.
func Redacted(text string) string {
	for _, secret := range secrets {
		text = secret.ReplaceAllString(text, "${1}…${2}")
	}
	return text
}
