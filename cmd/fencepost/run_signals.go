package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// runSignals returns those that end a command. What this process was started
// with ignored, by nohup or by a shell for its background, stays so, and the
// command inherits it.
func runSignals() <-chan os.Signal {
	// Heard and dropped: ignored, the command would inherit that and never end
	// with the reader of its output.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// endedBy returns a context that the first of signals ends, and what leaves the
// others to the caller.
func endedBy(signals <-chan os.Signal) (ctx context.Context, handOver func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case s := <-signals:
			cancel(&interruptedError{signal: s})
		case <-over:
		}
	}()
	return ctx, func() { close(over); <-gone }
}
