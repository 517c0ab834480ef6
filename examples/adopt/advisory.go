package adopt

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Advisory keeps a session-level advisory lock on a connection of its own, and
// draws the number on that connection.
func Advisory(ctx context.Context, session *pgx.Conn, pool *pgxpool.Pool, work func(pgx.Tx) error) error {
	if _, err := session.Exec(ctx, "SELECT pg_advisory_lock(42)"); err != nil {
		return err
	}
	defer session.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock(42)")
	tok, err := (&sqlguard.Guard{DB: session}).Mint(ctx, "account/42", "billing:"+rand.Text())
	if err != nil {
		return err
	}
	return sqlguard.Update(token.NewContext(ctx, tok), pool, "account/42", work)
}
