package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is a number of waiters that compete for one lock.
type crowd struct {
	waiters int
	hold    time.Duration // how long each holds it
	think   time.Duration // how long each works without it
	lock    func(ctx context.Context, waiter int) (unlock, error)
	// sent returns how many commands or packets were sent so far. Nil: they are not
	// counted.
	sent func() int64
}

// competed is the result of a block. Times are in seconds.
type competed struct {
	handOver float64 // the median, from the call of the release to the next waiter's grant
	wait     float64 // the 99th percentile, from the call to the grant
	sent     float64 // per acquisition
	fairness float64 // Jain's: (Σx)² ÷ n·Σx²
}

// run lets the waiters compete for a quarter of d, so that their queue settles, and then
// for d, which is measured. Waits that have not ended by then are cut off. If there was
// no acquisition, run repeats the block with twice the time.
func (c crowd) run(ctx context.Context, d time.Duration) (r competed, err error) {
	for {
		if r, err = c.block(ctx, d); !errors.Is(err, errTooShort) {
			return r, err
		}
		d *= 2
	}
}

func (c crowd) block(ctx context.Context, d time.Duration) (competed, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// The context has no deadline: rueidislock limits its key to that, in whole
	// milliseconds, and Redis then ends the lock before the holder's context ends.
	open, over := context.WithCancel(ctx)
	defer over()
	defer time.AfterFunc(d/4+d, over).Stop()
	b := &competition{crowd: c, start: time.Now(), counted: d / 4}
	all := make([]experience, c.waiters)
	var waiters sync.WaitGroup
	for i := range all {
		waiters.Go(func() {
			if err := b.waiter(ctx, open, i, &all[i]); err != nil {
				stop(fmt.Errorf("waiter %d: %w", i, err))
			}
		})
	}
	sent := b.sent(open)
	waiters.Wait()
	if err := context.Cause(ctx); err != nil {
		return competed{}, err
	}
	return read(all, d, sent)
}

// competition is the shared state of a block's waiters.
type competition struct {
	crowd    crowd
	start    time.Time
	counted  time.Duration // since start: grants before it are not counted
	inside   atomic.Int64
	released atomic.Int64 // time of the last call of a release, since start
}

// experience is the result of one waiter, in seconds.
type experience struct {
	count            int // of acquisitions
	waits, handOvers []float64
}

// sent returns how many were sent during the measured time. Waiters that leave after the
// block may send more.
func (b *competition) sent(open context.Context) int64 {
	if b.crowd.sent == nil {
		<-open.Done()
		return 0
	}
	select {
	case <-time.After(b.counted):
	case <-open.Done():
	}
	before := b.crowd.sent()
	<-open.Done()
	return b.crowd.sent() - before
}

var (
	errTwo      = errors.New("two waiters hold it at the same time")
	errTooShort = errors.New("no acquisition: the block is too short")
)

// waiter acquires and releases the lock for as long as the block is open.
func (b *competition) waiter(ctx, open context.Context, number int, own *experience) error {
	for open.Err() == nil {
		asked := time.Since(b.start)
		release, err := b.crowd.lock(open, number)
		granted := time.Since(b.start)
		switch {
		case open.Err() != nil && err != nil:
			own.waits = append(own.waits, (granted - asked).Seconds())
			return nil
		case err != nil:
			return err
		case open.Err() != nil:
			return release(ctx)
		case b.inside.Add(1) != 1:
			return errTwo
		case granted >= b.counted:
			own.count++
			own.waits = append(own.waits, (granted - asked).Seconds())
			if released := time.Duration(b.released.Load()); asked < released {
				own.handOvers = append(own.handOvers, (granted - released).Seconds())
			}
		}
		time.Sleep(b.crowd.hold)
		b.inside.Add(-1)
		b.released.Store(int64(time.Since(b.start)))
		if err := release(ctx); err != nil {
			return err
		}
		time.Sleep(b.crowd.think)
	}
	return nil
}

// read needs at least one acquisition. If there was no hand-over, because the waiter that
// released the lock was always the first to acquire it again, the hand-over counts as
// long as the block.
func read(all []experience, d time.Duration, sent int64) (competed, error) {
	var waits, handOvers []float64
	var acquired, squares float64
	for _, e := range all {
		waits, handOvers = append(waits, e.waits...), append(handOvers, e.handOvers...)
		acquired += float64(e.count)
		squares += float64(e.count) * float64(e.count)
	}
	if acquired == 0 {
		return competed{}, errTooShort
	}
	if len(handOvers) == 0 {
		handOvers = append(handOvers, d.Seconds())
	}
	slices.Sort(waits)
	slices.Sort(handOvers)
	return competed{
		handOver: quantile(handOvers, 0.5), wait: quantile(waits, 0.99), sent: float64(sent) / acquired,
		fairness: acquired * acquired / (float64(len(all)) * squares),
	}, nil
}

// channel is the lock that every program has: a channel with capacity one, at which Go's
// runtime queues the waiters.
func channel() func(ctx context.Context, waiter int) (unlock, error) {
	free := make(chan struct{}, 1)
	free <- struct{}{}
	release := func(context.Context) error {
		select {
		case free <- struct{}{}:
			return nil
		default:
			return errors.New("the lock was released twice")
		}
	}
	return func(ctx context.Context, _ int) (unlock, error) {
		select {
		case <-free:
			return release, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// roundTrip returns the median duration of a request. It pauses before each request as
// long as a holder holds, since a hand-over also happens on a machine that was idle.
func roundTrip(ctx context.Context, d, pause time.Duration, request func(ctx context.Context) error) (float64, error) {
	const fewest = 50
	var times []float64
	for end := time.Now().Add(d); len(times) < fewest || time.Now().Before(end); {
		start := time.Now()
		if err := request(ctx); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start).Seconds())
		time.Sleep(pause)
	}
	slices.Sort(times)
	return quantile(times, 0.5), nil
}
