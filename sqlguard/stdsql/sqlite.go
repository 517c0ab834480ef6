package stdsql

import (
	"context"
	"errors"
	"fmt"
	"time"

	_ "embed"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed sqlite_admit.sql
	sqliteAdmit string
	//go:embed sqlite_mark.sql
	sqliteMark string
)

// sqlite goes by the texts of sqlite3_errstr and of SQLite's own messages. The
// drivers' error types have nothing else in common: a method Code() int in one,
// fields in another, a type of its own in a third. And fn's errors come here
// too, whose codes may be anything.
type sqlite struct{ usual }

var (
	sqliteBusy        = says("database is locked", "database table is locked", "database schema is locked")
	sqliteMissing     = says("no such table: fencepost_marks", "no such table: fencepost_floor")
	sqliteViolated    = says("constraint failed")
	sqliteNone        = says("no transaction is active")
	sqliteInterrupted = says("interrupted")
)

// admit is a write always, whatever it is for: see the file.
func (*sqlite) admit(ctx context.Context, tx Tx, tok token.Token, _ way) error {
	result, err := tx.ExecContext(ctx, statement(sqliteAdmit), tok.Resource, tok.Number, tok.Holder)
	if sqliteMissing(err) {
		return fmt.Errorf("stdsql: the database lacks what package migrations creates: %w", err)
	}
	if err != nil {
		return fmt.Errorf("stdsql: admit %s: %w", tok, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return fmt.Errorf("stdsql: admit %s: %w", tok, err)
	}
	if rows == 1 {
		return nil
	}
	stale := &guard.StaleError{Token: tok}
	if err := tx.QueryRowContext(ctx, statement(sqliteMark), tok.Resource).Scan(&stale.Mark.Number, &stale.Mark.Holder); err != nil {
		return fmt.Errorf("stdsql: mark of %s: %w", tok.Resource, err)
	}
	return stale
}

// clear: if it cannot find out, the connection is thrown away.
func (*sqlite) clear(t *transaction, _ error) bool {
	_, err := t.conn.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && !sqliteNone(err) {
		t.discard()
	}
	return err == nil
}

// undone goes by what ROLLBACK says where COMMIT fails: if there was still
// something to roll back, nothing was applied. If not, SQLite may have rolled
// back by itself, or may not have been able to say that it had committed. Some
// drivers have rolled back by now, when SQLite had not.
func (d *sqlite) undone(t *transaction, err error) bool {
	return d.clear(t, err) || sqliteBusy(err) || sqliteViolated(err)
}

func (*sqlite) over(err error) bool { return sqliteNone(err) }

// cut: SQLite may roll back where the context of a statement ends.
func (*sqlite) cut(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || sqliteInterrupted(err)
}

func (*sqlite) outcome(err error, _ time.Duration) error {
	if sqliteBusy(err) {
		return guard.ErrRetryable
	}
	return nil
}
