package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/internal/point"
)

// transaction keeps its connection until it is certain that nothing is open on
// it. To database/sql a transaction is over whatever COMMIT answered; to SQLite
// it is still open after SQLITE_BUSY, and would keep everybody out of the
// database from inside the pool.
type transaction struct {
	*sql.Tx
	conn *sql.Conn
	*dialect
	end point.Step // how it ended, as far as anybody knows
}

// begin waits for a connection as long as ctx lets it, and begins detached from
// it: database/sql rolls back when the context of BeginTx ends, up to the very
// COMMIT.
func (g *Guard) begin(ctx context.Context, t *transaction) error {
	switch {
	case g.DB == nil:
		return errNoDB
	case g.Tx != nil && g.Tx.ReadOnly:
		return errReadOnly
	}
	conn, err := g.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("stdsql: nothing was sent: %w", err)
	}
	tx, err := conn.BeginTx(point.Within(context.WithoutCancel(ctx), t), g.Tx)
	if err != nil {
		conn.Close()
		return fmt.Errorf("stdsql: begin: %w", err)
	}
	t.conn, t.Tx = conn, tx
	return nil
}

// close gives the connection back. It rolls back what neither commit nor abort
// has ended: after a refusal, a panic, a runtime.Goexit.
func (t *transaction) close() {
	if err := t.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		t.clear()
	}
	t.conn.Close()
}

// clear ends what may still be open on the connection, and reports whether
// anything was. If it cannot find out, the connection is thrown away.
func (t *transaction) clear() bool {
	_, err := t.conn.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && !t.none(err) {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err == nil
}
