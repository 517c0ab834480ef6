package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptedError is the cause of a context that a signal ended.
type interruptedError struct{ signal os.Signal }

func (e *interruptedError) Error() string {
	return "ended by signal: " + e.signal.String()
}

// status is what shells take for "ended by this signal".
func (e *interruptedError) status() int {
	if s, ok := e.signal.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return 130
}

// untilSignal returns a context that the first signal ends. Further ones change
// nothing: what is being removed then is removed to the end.
func untilSignal(ctx context.Context) (context.Context, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup means it
		signal.Notify(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case s := <-signals:
			cancel(&interruptedError{signal: s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
