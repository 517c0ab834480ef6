package adopt

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Advisory keeps a session-level advisory lock on a connection of its own, and
// draws the number on that connection.
func Advisory(ctx context.Context, pool *pgxpool.Pool, name string, work func(pgx.Tx) error) error {
	return pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		defer conn.Conn().Close(context.WithoutCancel(ctx)) // the lock ends with the session
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(42)"); err != nil {
			return err
		}
		tok, err := sqlguard.Mint(ctx, conn, "account/42", name)
		if err != nil {
			return err
		}
		return sqlguard.Update(token.NewContext(ctx, tok), pool, "account/42", work)
	})
}
