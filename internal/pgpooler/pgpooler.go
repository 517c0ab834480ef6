// Package pgpooler detects a pooler between pgx and PostgreSQL, and whether it lets clients share
// sessions.
package pgpooler

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Process returns the id of the process that answers. A pooler has announced another one when
// the connection began: its own.
func Process(ctx context.Context, conn *pgx.Conn) (process uint32, err error) {
	// This mode needs no prepared statement, which a pooler may not keep.
	err = conn.QueryRow(ctx, "SELECT pg_catalog.pg_backend_pid()::bigint", pgx.QueryExecModeExec).Scan(&process)
	return process, err
}

// Shared reports whether a pooler gives the session of a client to others between two
// transactions. It opens a second connection, unless there is no pooler.
//
// No transaction is open meanwhile: in as many callers as the pool has sessions, each would
// wait for a session of the others. Each connection is asked twice in turn: a pooler that takes
// its two sessions in turn would otherwise give the same one to each. It is asked again and
// again, because other clients may use the session that the two would share.
func Shared(ctx context.Context, conn *pgx.Conn) (bool, error) {
	process, err := Process(ctx, conn)
	if err != nil || process == conn.PgConn().PID() {
		return false, err
	}
	other, err := pgx.ConnectConfig(ctx, conn.Config())
	if err != nil {
		return false, err
	}
	defer other.Close(context.WithoutCancel(ctx))
	of := map[*pgx.Conn]uint32{conn: process}
	for range 4 {
		for _, asked := range []*pgx.Conn{other, other, conn, conn} {
			process, err := Process(ctx, asked)
			if err != nil {
				return false, err
			}
			last, again := of[asked]
			of[asked] = process
			if again && last != process || of[conn] == of[other] {
				return true, nil
			}
		}
	}
	return false, nil
}
