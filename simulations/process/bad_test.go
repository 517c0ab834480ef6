package process_test

import (
	"context"
	"errors"
	"os"

	"github.com/fencepost/fencepost/simulations"
)

// openFailing is no subject at all.
func openFailing(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, _, s, end, err := servers(ctx, text)
	s.Do = func(context.Context) error { return context.DeadlineExceeded }
	return s, end, err
}

// openInTime writes before it comes to where it is stopped, but for its twin.
func openInTime(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	s.Do = func(ctx context.Context) error {
		defer simulations.Point(ctx, computed)
		_, err := l.pool.Exec(ctx, l.adds, resource)
		return err
	}
	s.Unguarded = func(ctx context.Context) error { return l.naive(ctx, nil) }
	return s, end, err
}

// openNothing finds no server in the writers' processes.
func openNothing(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	if os.Getenv("FENCEPOST_PROCESS_WRITER") != "" {
		return simulations.Subject{}, nil, errors.New("no server at all")
	}
	return openPostgres(ctx, text)
}
