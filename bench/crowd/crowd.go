package crowd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

// Crowd is those who want it.
type Crowd struct {
	Waiters int
	Hold    time.Duration // how long each has it
	Think   time.Duration // how long each then does something else
	Lock    Lock
	// Sent, where it is not nil, is how many commands, or packets, were sent so far.
	Sent func() int64
}

// Run has them want it for a quarter of d, in which they come to stand as they
// then stand, and for d, of which is told. What a waiter still waits for at the
// end is cut off.
func (c Crowd) Run(ctx context.Context, d time.Duration) (measure.Reading, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	open, over := context.WithTimeout(ctx, d/4+d)
	defer over()
	b := &block{crowd: c, start: time.Now(), counted: d / 4}
	all := make([]seen, c.Waiters)
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
		return nil, err
	}
	return read(all, d, sent)
}

// block is what the waiters of one share.
type block struct {
	crowd    Crowd
	start    time.Time
	counted  time.Duration // since start: what is granted before is not
	inside   atomic.Int64
	released atomic.Int64 // when it was given back last, since start
}

// sent is how many were sent while it was counted. Those who leave when
// it is over may send more.
func (b *block) sent(open context.Context) int64 {
	if b.crowd.Sent == nil {
		<-open.Done()
		return 0
	}
	select {
	case <-time.After(b.counted):
	case <-open.Done():
	}
	before := b.crowd.Sent()
	<-open.Done()
	return b.crowd.Sent() - before
}

var errTwo = errors.New("two have it at once")

// waiter wants it again and again, for as long as the block is open.
func (b *block) waiter(ctx, open context.Context, number int, s *seen) error {
	for open.Err() == nil {
		asked := time.Since(b.start)
		unlock, err := b.crowd.Lock(open, number)
		granted := time.Since(b.start)
		switch {
		case open.Err() != nil && err != nil:
			s.waited(asked, granted)
			return nil
		case err != nil:
			return err
		case open.Err() != nil:
			return unlock(ctx)
		case b.inside.Add(1) != 1:
			return errTwo
		case granted >= b.counted:
			s.granted(asked, granted, time.Duration(b.released.Load()))
		}
		time.Sleep(b.crowd.Hold)
		b.inside.Add(-1)
		b.released.Store(int64(time.Since(b.start)))
		if err := unlock(ctx); err != nil {
			return err
		}
		time.Sleep(b.crowd.Think)
	}
	return nil
}
