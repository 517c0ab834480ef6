package adopt

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// NoLock starts with Fencepost's own lock, in the database that is there. What
// it returns is made once and used for every piece of work.
func NoLock(pool *pgxpool.Pool) func(ctx context.Context, work func(pgx.Tx) error) error {
	fence := &sqlguard.Guard{DB: pool}
	locks := &lock.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: fence.Admit}
	return func(ctx context.Context, work func(pgx.Tx) error) error {
		return locks.Hold(ctx, "account/42", func(ctx context.Context) error {
			return fence.Update(ctx, "account/42", work)
		})
	}
}
