package adopt

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
)

// Advisory takes a session-level advisory lock on a connection that is in no pool, and
// draws the number on that connection. Closing it ends the session, and with it the lock.
func Advisory(ctx context.Context, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	session, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer session.Close(context.WithoutCancel(ctx))
	if _, err := session.Exec(ctx, "SELECT pg_advisory_lock(42)"); err != nil {
		return err
	}
	ctx, err = (&sqlguard.Guard{DB: session}).Mint(ctx, "account/42", "billing:"+rand.Text())
	if err != nil {
		return err
	}
	return sqlguard.Update(ctx, pool, "account/42", work)
}
