package process_test

import (
	"context"
	"syscall"

	"github.com/fencepost/fencepost/simulations"
)

func init() { subjects["dies"] = openDying }

// openDying loses the pipe that its world is to be stopped with, in its third
// unit, and dies of that: a writer's third is the first to be stopped.
func openDying(ctx context.Context, text string) (simulations.Subject, func() error, error) {
	_, l, s, end, err := servers(ctx, text)
	units := 0
	s.Do = func(ctx context.Context) error {
		if units++; units == 3 {
			if err := syscall.Close(4); err != nil {
				return err
			}
		}
		return l.naive(ctx, nil)
	}
	s.Unguarded = s.Do
	return s, end, err
}
