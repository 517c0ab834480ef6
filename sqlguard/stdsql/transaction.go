package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// transaction keeps its connection until it is certain that nothing is open on
// it. To database/sql a transaction is over whatever COMMIT answered; to SQLite
// it is still open after SQLITE_BUSY, and would keep everybody out of the
// database from inside the pool.
type transaction struct {
	*sql.Tx
	conn *sql.Conn
	dialect
	begun time.Time
	held  bool // it was handed to fn
	// spoilt says that the connection is not fit for the pool. It cannot be
	// thrown away before database/sql thinks that the transaction is over.
	spoilt bool
	end    point.Step // how it ended, as far as anybody knows
}

// enter begins a transaction and admits the tokens in it. A token that has yet
// to raise its mark is a *blocked then.
func (g *Guard) enter(ctx context.Context, d dialect, toks []token.Token, w way, judge opinion) (*transaction, error) {
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), token.ErrLost) {
		return nil, fmt.Errorf("stdsql: nothing was sent: %w", err)
	}
	t := &transaction{dialect: d, begun: time.Now(), end: point.Undone}
	point.At(ctx, point.Begin, t)
	admitted := false
	defer func() { // also where an observer panics
		if !admitted {
			t.close(ctx)
		}
	}()
	ask, answered := asking(ctx)
	defer answered()
	ask = point.Within(ask, t)
	if err := g.begin(ask, t, toks, w); err != nil {
		return nil, t.meaning(err)
	}
	if err := g.admit(ask, d, t.Tx, toks, w, judge); err != nil {
		return nil, t.meaning(err)
	}
	if w == writing {
		if err := t.hold(ask, t); err != nil {
			return nil, t.meaning(fmt.Errorf("stdsql: begin: %w", err))
		}
		t.held, t.begun = true, time.Now()
	}
	admitted = true
	return t, nil
}

// begin waits for a connection as long as ctx lets it, and begins detached from
// it: database/sql rolls back when the context of BeginTx ends, up to the very
// COMMIT.
func (g *Guard) begin(ctx context.Context, t *transaction, toks []token.Token, w way) error {
	switch {
	case g.DB == nil:
		return errNoDB
	case g.Tx != nil && g.Tx.ReadOnly:
		return errReadOnly
	}
	options := g.Tx
	if w == claiming {
		options = t.options(g.Tx)
	}
	conn, err := g.DB.Conn(ctx)
	if err != nil {
		return fmt.Errorf("stdsql: nothing was sent: %w", err)
	}
	t.conn = conn
	if err := t.dialect.enter(ctx, conn, w, toks); err != nil {
		return err
	}
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), options)
	if err != nil {
		return fmt.Errorf("stdsql: begin: %w", err)
	}
	t.Tx = tx
	return nil
}

// close gives the connection back. It rolls back what neither commit nor abort
// has ended: after a refusal, a panic, a runtime.Goexit.
func (t *transaction) close(ctx context.Context) {
	defer point.At(ctx, t.end, t)
	if t.conn == nil {
		return
	}
	if t.Tx != nil {
		if err := t.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.clear(t, err)
		}
	}
	if t.spoilt || t.leave(t.conn) != nil {
		t.discard()
	}
	t.conn.Close()
}

// discard throws the connection away.
func (t *transaction) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
}
