package pgtoken

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// DB is what an Issuer sends its statements to: a *pgxpool.Pool.
//
// A *pgxpool.Conn or *pgx.Conn will do where nothing else uses it meanwhile,
// which a [token.Locker] does to renew. A pgx.Tx is refused, and so is a
// connection inside a transaction: a number must not leave before its commit.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func usable(db DB) error {
	switch db := db.(type) {
	case nil:
		return errors.New("Issuer has no DB")
	case pgx.Tx:
		return errors.New("DB is a transaction: a number must not leave before its commit")
	case *pgx.Conn:
		return idle(db)
	case interface{ Conn() *pgx.Conn }:
		return idle(db.Conn())
	}
	return nil
}

func idle(conn *pgx.Conn) error {
	if conn.PgConn().TxStatus() != 'I' {
		return errors.New("DB is a connection inside a transaction, which COMMIT would end")
	}
	return nil
}
