package crowd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

// Lock waits until the waiter of that number has it, and returns what gives it back.
type Lock func(ctx context.Context, waiter int) (unlock func(ctx context.Context) error, err error)

var errFree = errors.New("it was given back before")

// Channel is the lock of one process that everybody has: a channel with one place,
// at which Go's runtime has the waiters stand in line.
func Channel() Lock {
	free := make(chan struct{}, 1)
	free <- struct{}{}
	unlock := func(context.Context) error {
		select {
		case free <- struct{}{}:
			return nil
		default:
			return errFree
		}
	}
	return func(ctx context.Context, _ int) (func(ctx context.Context) error, error) {
		select {
		case <-free:
			return unlock, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// RoundTrip is what a side reads that only asks the server something, and then
// pauses as long as a holder holds: the median, in seconds.
const RoundTrip = "round trip"

// Ask is that side: a hand-over happens on a machine that has just been idle, and
// so does what it is compared with.
func Ask(pause time.Duration, ask func(ctx context.Context) error) measure.Run {
	return func(ctx context.Context, d time.Duration) (measure.Reading, error) {
		const fewest = 50
		var times []float64
		for end := time.Now().Add(min(d, time.Second)); len(times) < fewest || time.Now().Before(end); {
			start := time.Now()
			if err := ask(ctx); err != nil {
				return nil, err
			}
			times = append(times, time.Since(start).Seconds())
			time.Sleep(pause)
		}
		slices.Sort(times)
		return measure.Reading{measure.Operations: float64(len(times)), RoundTrip: measure.Quantile(times, 0.5)}, nil
	}
}
