package sqlguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DB is what a Guard sends its packets over: a *pgxpool.Pool, *pgxpool.Conn,
// *pgx.Conn or pgx.Tx, of pgx 5.12 or later. On a pgx.Tx a Guard works inside
// that transaction; on the others it begins its own.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

var (
	errNoDB     = errors.New("sqlguard: Guard has no DB")
	errReadOnly = errors.New("sqlguard: Guard.Tx is read only: a guarded transaction must be able to raise the mark")
	errClosed   = fmt.Errorf("sqlguard: %w", pgconn.ErrConnClosed)
	errInTx     = errors.New("sqlguard: the connection is inside a transaction already: give the guard that pgx.Tx instead")
	errNoBegin  = errors.New("sqlguard: DB does not support pgx.Batch.BeginTx")
)

// transaction returns the transaction that db is, if it is one.
func transaction(db DB) (pgx.Tx, bool) {
	tx, ok := db.(pgx.Tx)
	return tx, ok
}

// check refuses what cannot be guarded. A BEGIN inside a transaction is only a
// warning to PostgreSQL, and the COMMIT that follows would end the caller's.
func check(db DB) error {
	if db == nil {
		return errNoDB
	}
	if _, ok := transaction(db); ok {
		return nil
	}
	var conn *pgx.Conn
	switch db := db.(type) {
	case *pgx.Conn:
		conn = db
	case interface{ Conn() *pgx.Conn }: // *pgxpool.Conn
		conn = db.Conn()
	}
	switch {
	case conn == nil:
		return nil
	case conn.IsClosed():
		return errClosed
	case conn.PgConn().TxStatus() != 'I':
		return errInTx
	}
	return nil
}
