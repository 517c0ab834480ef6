package adopt

import (
	"context"

	"github.com/go-redsync/redsync/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Redsync keeps the redsync mutex and numbers each acquisition of it.
func Redsync(ctx context.Context, mutex *redsync.Mutex, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	defer mutex.UnlockContext(context.WithoutCancel(ctx))
	tok, err := (&sqlguard.Guard{DB: pool}).Mint(ctx, "account/42", mutex.Value())
	if err != nil {
		return err
	}
	return sqlguard.Update(token.NewContext(ctx, tok), pool, "account/42", work)
}
