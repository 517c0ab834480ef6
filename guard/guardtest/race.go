package guardtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/fencepost/fencepost/guard"
)

const (
	writers = 16
	turns   = 2 // of each writer, if the numbers differ
	rounds  = 8
)

// oneStep runs two races. If all writers use one number with different holders, exactly
// one may be admitted. If each uses its own numbers, none may be admitted after a greater
// number was.
func oneStep(ctx context.Context, s guard.Store) error {
	for round := range rounds {
		if err := sameNumber(ctx, s); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if _, err := differentNumbers(ctx, s); errors.Is(err, errLate) {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// noSpuriousRefusal checks the same race for the opposite fault: the greatest number must
// be admitted.
func noSpuriousRefusal(ctx context.Context, s guard.Store) error {
	for round := range rounds {
		greatest, err := differentNumbers(ctx, s)
		if greatest != nil {
			return fmt.Errorf("round %d: the greatest of %d numbers must be admitted: got %w", round, writers*turns, greatest)
		}
		if err != nil && !errors.Is(err, errLate) {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func sameNumber(ctx context.Context, s guard.Store) error {
	r := fresh()
	var admitted atomic.Int32
	together(func(i int) {
		if admit(ctx, s, tok(r, 33, holder(i))) == nil {
			admitted.Add(1)
		}
	})
	if n := admitted.Load(); n != 1 {
		return fmt.Errorf("%d concurrent holders with one number, 1 must be admitted: got %d", writers, n)
	}
	return nil
}

var errLate = errors.New("admitted after a greater number had been")

// differentNumbers returns the error for the greatest number in greatest. err is errLate
// if a lesser number was admitted late, and another error if a call neither admitted nor
// refused.
func differentNumbers(ctx context.Context, s guard.Store) (greatest, err error) {
	r := fresh()
	var top atomic.Int64
	verdicts := make([]error, writers*turns)
	numbers := rand.Perm(writers * turns)
	together(func(i int) {
		for n := i * turns; n < (i+1)*turns; n++ {
			tok := tok(r, int64(100+numbers[n]), holder(n))
			before := top.Load()
			switch err := admit(ctx, s, tok); {
			case err == nil && tok.Number < before:
				verdicts[n] = fmt.Errorf("%w: %d after %d", errLate, tok.Number, before)
			case err == nil:
				raise(&top, tok.Number)
			case numbers[n] == len(numbers)-1:
				greatest = err
			case !errors.Is(err, guard.ErrStale):
				verdicts[n] = fmt.Errorf("%s must be admitted or refused: got %w", show(tok), err)
			}
		}
	})
	return greatest, errors.Join(verdicts...)
}

// holder returns names of equal length, so that no name is a prefix of another.
func holder(i int) string { return fmt.Sprintf("holder-%02d", i) }

func raise(top *atomic.Int64, number int64) {
	for old := top.Load(); old < number && !top.CompareAndSwap(old, number); old = top.Load() {
	}
}

// together runs fn once for each writer, all at the same time, and waits for them.
func together(fn func(i int)) {
	var ready, done sync.WaitGroup
	ready.Add(writers)
	for i := range writers {
		done.Go(func() {
			ready.Done()
			ready.Wait()
			fn(i)
		})
	}
	done.Wait()
}
