package schedule_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/schedule"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const every = time.Minute

var tick = schedule.Tick(time.Date(2026, 5, 1, 9, 0, 12, 0, time.UTC), every)

// Three instances wake up for each of five ticks. The clocks of two are behind.
func TestATickRunsOnceOnThreeInstances(t *testing.T) {
	t.Parallel()
	pool, locks := servers(t, 20*time.Millisecond)
	for n := range 5 {
		done := make(chan error)
		for behind := range 3 {
			go func() {
				s := schedule.Schedule{Locks: locks, Fence: &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour}}
				time.Sleep(time.Duration(behind) * 15 * time.Millisecond)
				done <- s.Run(t.Context(), "report", tick.Add(time.Duration(n)*every), report)
			}()
		}
		ran := 0
		for range 3 {
			if err := <-done; !errors.Is(err, schedule.ErrDone) {
				require.NoError(t, err)
				ran++
			}
		}
		require.Equal(t, 1, ran)
		require.Equal(t, n+1, reports(t, pool))
		require.Eventually(t, func() bool { // at the next tick, the lock is not kept any more
			grant, err := locks.Issuer.Acquire(t.Context(), "schedule/report", "test", time.Hour)
			return err == nil && locks.Issuer.Release(t.Context(), grant.Token) == nil
		}, 2*time.Minute, time.Millisecond)
	}
}

// late is an instance that wakes up after the others have finished.
func late(t *testing.T, pool *pgxpool.Pool, locks *lock.Locker) error {
	s := schedule.Schedule{Locks: locks, Fence: &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour}}
	return s.Run(t.Context(), "report", tick, report)
}

func TestAnInstanceThatIsLate(t *testing.T) {
	t.Parallel()
	t.Run("is refused while the lock is kept", func(t *testing.T) {
		t.Parallel()
		pool, locks := servers(t, time.Hour)
		require.NoError(t, late(t, pool, locks))
		err := late(t, pool, locks)
		require.ErrorIs(t, err, schedule.ErrDone)
		require.ErrorIs(t, err, token.ErrHeld)
	})
	t.Run("is refused when it is not kept any more", func(t *testing.T) {
		t.Parallel()
		pool, locks := servers(t, 0)
		require.NoError(t, late(t, pool, locks))
		err := late(t, pool, locks)
		require.ErrorIs(t, err, schedule.ErrDone)
		require.NotErrorIs(t, err, token.ErrHeld)
		require.Equal(t, 1, reports(t, pool))
	})
	t.Run("runs the tick again without either", func(t *testing.T) {
		t.Parallel()
		pool, locks := servers(t, 0)
		for range 2 {
			require.NoError(t, locks.Hold(t.Context(), "schedule/report", func(ctx context.Context) error {
				return sqlguard.Update(ctx, pool, "schedule/report", func(tx pgx.Tx) error { return report(ctx, tx) })
			}))
		}
		require.Equal(t, 2, reports(t, pool))
	})
}

func TestAJobThatFailsHasNotBeenDone(t *testing.T) {
	t.Parallel()
	pool, locks := servers(t, 0)
	s := schedule.Schedule{Locks: locks, Fence: &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour}}
	errBroken := errors.New("broken")
	err := s.Run(t.Context(), "report", tick, func(context.Context, pgx.Tx) error { return errBroken })
	require.ErrorIs(t, err, errBroken)
	require.NoError(t, s.Run(t.Context(), "report", tick, report))
	require.Equal(t, 1, reports(t, pool))
}

// An instance is stopped before its work, its lock expires, and another instance does the
// next tick.
func TestAnInstanceThatWasStoppedIsRefused(t *testing.T) {
	t.Parallel()
	pool, locks := servers(t, 0)
	fence := &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour}
	stopped, err := locks.Issuer.Acquire(t.Context(), "schedule/report", "stopped", 50*time.Millisecond)
	require.NoError(t, err)
	next := schedule.Schedule{Locks: locks, Fence: fence}
	require.Eventually(t, func() bool {
		return next.Run(t.Context(), "report", tick, report) == nil
	}, 2*time.Minute, time.Millisecond)
	err = fence.Update(token.NewContext(t.Context(), stopped.Token), "schedule/report", func(pgx.Tx) error { return nil })
	require.ErrorIs(t, err, guard.ErrStale)
}
