package sqlguard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const writers = 16

// all runs f for each writer at once and returns their errors.
func all(f func(i int) error) []error {
	errs := make([]error, writers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errs
}

// barrier lets nobody pass before all writers have come.
type barrier struct {
	come atomic.Int64
	all  chan struct{}
}

func newBarrier() *barrier { return &barrier{all: make(chan struct{})} }

func (b *barrier) pass(ctx context.Context) error {
	if b.come.Add(1) == writers {
		close(b.all)
	}
	select {
	case <-b.all:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("only %d came: %w", b.come.Load(), ctx.Err())
	}
}

// hazard G12
func TestOneTokenWritesInParallel(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run("sixteen transactions are inside at once under "+string(level), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.admitted(33)
			ctx, b := e.ctx(33), newBarrier()
			for _, err := range all(func(int) error {
				return e.at(level).Update(ctx, resource, func(pgx.Tx) error { return b.pass(ctx) })
			}) {
				require.NoError(t, err)
			}
		})
	}
	// hazard G17
	t.Run("where admission always writes the mark, one is inside and the others wait", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		var inside, waited atomic.Int64
		ctx := e.bounded()
		for _, err := range all(func(int) error {
			return pgx.BeginFunc(e.bounded(), e.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(e.bounded(), e.sql(`SET LOCAL lock_timeout = '300ms';
					INSERT INTO marks AS m VALUES ('account/42', 33, 'h33')
					ON CONFLICT (resource) DO UPDATE SET number = excluded.number WHERE m.number < excluded.number`))
				if err != nil {
					waited.Add(1)
					return nil
				}
				inside.Add(1)
				for waited.Load() < writers-1 && ctx.Err() == nil { // it stays until all others have given up
					time.Sleep(time.Millisecond)
				}
				return nil
			})
		}) {
			if err != nil {
				require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
			}
		}
		require.Equal(t, int64(1), inside.Load(), "the twin must serialise")
	})
}
