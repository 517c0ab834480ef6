package adopt_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// A leader is paused between its read and its write. Meanwhile another process becomes
// the leader and writes.
func TestAFormerLeaderIsRefused(t *testing.T) {
	t.Parallel()
	for _, reportOnly := range []bool{false, true} {
		t.Run(map[bool]string{false: "refused", true: "the twin without a guard is corrupted"}[reportOnly], func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			fence := &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour, DangerouslyReportOnly: reportOnly, Hooks: quiet}
			add := func(amount int64, meanwhile func()) func(ctx context.Context) error {
				return func(ctx context.Context) error {
					var seen int64
					if err := pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&seen); err != nil {
						return err
					}
					meanwhile()
					return fence.Update(ctx, "leader/billing", func(tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", seen+amount)
						return err
					})
				}
			}
			var late, next error
			adopt.OnStartedLeading(fence, add(-50, func() {
				adopt.OnStartedLeading(fence, add(10, func() {}), func(err error) { next = err })(t.Context())
			}), func(err error) { late = err })(t.Context())

			require.NoError(t, next)
			var balance int64
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT balance FROM accounts WHERE id = 42").Scan(&balance))
			if reportOnly {
				require.NoError(t, late)
				require.Equal(t, int64(50), balance, "the successor's value is overwritten")
				return
			}
			require.ErrorIs(t, late, guard.ErrStale)
			require.Equal(t, int64(110), balance, "the successor's value is kept")
		})
	}
}
