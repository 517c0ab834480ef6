package measure

import (
	"context"
	"slices"
	"sync"
	"time"
)

// block runs one and returns what an operation of it cost. Of times that is the
// median, which an interrupt of the machine, or the last of many, does not move.
func (f Figure) block(ctx context.Context, op Op) (float64, error) {
	times := make([]float64, f.size()*f.workers())
	all := func() error { return f.together(ctx, op, times) }
	if f.Cost != nil {
		return f.Cost(ctx, len(times), all)
	}
	if err := all(); err != nil {
		return 0, err
	}
	slices.Sort(times)
	return Quantile(times, 0.5), nil
}

// together runs a block by all workers and notes how long each operation took.
// The first error ends the others' too.
func (f Figure) together(ctx context.Context, op Op, times []float64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for worker, own := range slices.Collect(slices.Chunk(times, f.size())) {
		group.Go(func() {
			ctx := ctx
			if f.Context != nil {
				ctx = f.Context(ctx, worker)
			}
			for i := range own {
				start := time.Now()
				if err := op(ctx, worker); err != nil {
					cancel(err)
					return
				}
				own[i] = time.Since(start).Seconds()
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
