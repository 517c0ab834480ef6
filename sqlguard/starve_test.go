package sqlguard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// hazard G25
func TestSuccessorIsNotStarved(t *testing.T) {
	t.Parallel()
	// crowd keeps writers of token 33 coming such that there is always one
	// inside, as long as they are let in: each leaves when another has come,
	// and only where nobody comes any more does the last one leave.
	crowd := func(e *env, admit func(ctx context.Context, fn func() error) error, succeed func() error) error {
		ctx, stop := context.WithCancel(e.ctx(33))
		var entered atomic.Int64
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for ctx.Err() == nil {
					_ = admit(ctx, func() error {
						mine := entered.Add(1)
						for waited := 0; entered.Load() == mine && waited < 500 && ctx.Err() == nil; waited++ {
							time.Sleep(time.Millisecond)
						}
						return nil
					})
				}
			})
		}
		e.await("a crowd", func() bool { return entered.Load() > 3*writers })
		err := succeed()
		stop()
		group.Wait()
		return err
	}
	t.Run("the claim gets through the crowd", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		err := crowd(e, func(ctx context.Context, fn func() error) error {
			return e.guard.Update(ctx, resource, func(pgx.Tx) error { return fn() })
		}, func() error {
			return e.guard.Admit(e.bounded(), token.Token{Resource: resource, Number: 34, Holder: "h34"})
		})
		require.NoError(t, err)
		require.Equal(t, "34 h34", e.mark(resource))
	})
	t.Run("behind FOR SHARE it waits in vain", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.admitted(33)
		err := crowd(e, func(ctx context.Context, fn func() error) error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(ctx, e.sql("SELECT FROM marks WHERE resource = 'account/42' AND number = 33 FOR SHARE"))
				if err != nil {
					return err
				}
				return fn()
			})
		}, func() error {
			_, err := e.pool.Exec(e.bounded(), e.sql("SET statement_timeout = '2s'; UPDATE marks SET number = 34 WHERE resource = 'account/42'; RESET statement_timeout"))
			return err
		})
		require.ErrorContains(t, err, "57014", "the twin must starve")
	})
}
