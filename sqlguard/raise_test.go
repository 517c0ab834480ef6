package sqlguard_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// hazard G17
func TestRaisingAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("share first, raise then: two writers deadlock", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		both := make(chan struct{}, 2)
		raise := func(tx pgx.Tx) error {
			ctx := e.bounded()
			if _, err := tx.Exec(ctx, e.sql("SELECT FROM marks WHERE resource = 'account/42' FOR SHARE")); err != nil {
				return err
			}
			both <- struct{}{}
			for len(both) < 2 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			_, err := tx.Exec(ctx, e.sql("UPDATE marks SET number = number + 1 WHERE resource = 'account/42'"))
			return err
		}
		a := async(func() error { return pgx.BeginFunc(t.Context(), e.pool, raise) })
		b := async(func() error { return pgx.BeginFunc(t.Context(), e.pool, raise) })
		text := fmt.Sprint(await(t, a), await(t, b))
		require.Contains(t, text, "40P01", "the twin must deadlock")
	})
	t.Run("sixteen first writers, round after round: one each is admitted, none deadlocks", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for round := range int64(20) {
			var mu sync.Mutex
			var inside []int64 // in the order in which they were in
			b := newBarrier()
			for i, err := range all(func(i int) error {
				ctx := e.ctx(100*round + int64(i%4) + 1)
				if err := b.pass(ctx); err != nil {
					return err
				}
				return e.guard.Update(ctx, resource, func(pgx.Tx) error {
					mu.Lock()
					defer mu.Unlock()
					inside = append(inside, int64(i%4))
					return nil
				})
			}) {
				if i%4 == 3 {
					require.NoError(t, err, "the newest is always admitted")
				} else if err != nil {
					require.ErrorIs(t, err, guard.ErrStale)
				}
			}
			require.IsNonDecreasing(t, inside, "an older token was admitted after a newer one")
		}
	})
}
