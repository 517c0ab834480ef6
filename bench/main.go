// Command bench measures what Fencepost costs beside a program without it:
//
//	cd bench && go run .                    every group, five minutes each
//	cd bench && go run . -quick             every group within 40 s
//	cd bench && go run . -only write -json  one group, one object a line
//
// The groups write and http are of guarded writes, redis, handover, pglock and renew
// of locks: the packages of those names say what they measure, and beside what.
//
// It starts its own servers, of which PostgreSQL waits for its disk, and ends them.
// It prints one row for each figure, which package measure explains; a/a is the noise.
//
// # Exit status
//
//	0    measured; a ratio that misses its target is a row and no error
//	2    nothing is known: bad flags, no server, an operation that failed
//	130  interrupted (128 and the signal's number); no server is left
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run(groups, os.Args[1:], os.Stdout, os.Stderr))
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ syscall.Signal }

func (i interrupted) Error() string { return "ended by signal: " + i.Signal.String() }

// run returns the exit status.
func run(all []group, args []string, out, errs io.Writer) int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	err := measureAll(ctx, all, args, out, errs)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause // what else went wrong came of it
	}
	var signal interrupted
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &signal):
		fmt.Fprintln(errs, "bench:", err)
		return 128 + int(signal.Signal)
	}
	fmt.Fprintln(errs, "bench:", err)
	return 2
}

func measureAll(ctx context.Context, all []group, args []string, out, errs io.Writer) error {
	o, err := parse(all, args, errs)
	if err != nil {
		return err
	}
	for _, g := range o.groups {
		if err := o.measure(ctx, g, out); err != nil {
			return err
		}
	}
	return nil
}

// measure prints a group. Its servers have ended when it returns.
func (o options) measure(ctx context.Context, g group, out io.Writer) (err error) {
	all, stop, err := g.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	show := lines(out)
	if !o.json {
		if show, err = table(out, all); err != nil {
			return err
		}
	}
	return o.plan.Run(ctx, g.name, all, show)
}

// untilSignal returns a context that the first signal ends. Further ones change
// nothing: the servers are ended first.
func untilSignal(ctx context.Context) (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case s := <-signals:
			if number, ok := s.(syscall.Signal); ok {
				cancel(interrupted{number})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}
