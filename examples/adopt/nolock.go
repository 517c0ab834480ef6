package adopt

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// NoLock starts with Fencepost's own lock, in the database that is there.
func NoLock(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	fence := &sqlguard.Guard{DB: pool}
	locker := token.Locker{Issuer: &pgtoken.Issuer{DB: pool}, Claim: fence.Admit}
	return locker.Hold(ctx, "account/42", func(ctx context.Context) error {
		return fence.Update(ctx, "account/42", work)
	})
}
