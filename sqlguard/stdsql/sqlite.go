package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/token"
)

var (
	sqliteAdmit = statement("sqlite_admit.sql")
	sqliteMint  = statement("sqlite_mint.sql")
	sqliteMark  = statement("sqlite_mark.sql")
)

// sqlite recognizes errors by the texts of sqlite3_errstr and of SQLite's own messages.
// The drivers' error types have nothing else in common: one has a method Code() int, one
// has fields, one has its own type. Besides, fn's errors are tested too, and their codes
// may mean anything.
type sqlite struct{ rowUnits }

var (
	sqliteBusy        = containsAny("database is locked", "database table is locked", "database schema is locked")
	sqliteMissing     = containsAny("no such table: fencepost_marks", "no such table: fencepost_floor")
	sqliteViolated    = containsAny("constraint failed")
	sqliteNone        = containsAny("no transaction is active")
	sqliteInterrupted = containsAny("interrupted")
	sqliteInTx        = containsAny("cannot VACUUM from within a transaction")
	sqliteWithoutInto = containsAny(`near "INTO": syntax error`)
)

// probe checks that tx is open. The Begin of a driver may do nothing, because its database
// commits each statement, as in rqlite's gorqlite/stdlib:
//
//  1. 33 is admitted. The admission commits by itself and holds nothing.
//  2. 34 is admitted, and writes.
//  3. 33 writes, and overwrites 34.
//
// SQLite refuses VACUUM inside a transaction. Outside of one it refuses VACUUM INTO NULL
// for its file name, so the statement changes nothing in either case. A second BEGIN would
// be refused inside a transaction too, but outside of one it begins one. On rqlite that
// is the server's, and the writes of its other clients become part of it.
func (d *sqlite) probe(ctx context.Context, tx Tx) error {
	_, err := tx.ExecContext(ctx, "VACUUM INTO NULL")
	if sqliteWithoutInto(err) { // SQLite before 3.27
		_, err = tx.ExecContext(ctx, "VACUUM")
	}
	switch {
	case sqliteInTx(err):
		return nil
	case d.undecided(err) || engine.Mismatch(ctx, tx, err, SQLite) != "":
		return fmt.Errorf("stdsql: check the transaction: %w", err)
	}
	returned := "no error"
	if err != nil {
		returned = err.Error()
	}
	return &engine.Error{
		Engine: "SQLite without an open transaction",
		Reason: "VACUUM returned " + returned + ", which it does not inside a transaction, so an admission would commit by itself and hold nothing: " +
			"use a driver whose Begin begins a transaction in a SQLite file, and give Join an open one",
	}
}

// undecided reports whether err, of the probe, does not depend on the engine: the context,
// the connection or the transaction has ended, or another connection holds a lock.
func (d *sqlite) undecided(err error) bool {
	for _, ended := range []error{driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, ended) {
			return true
		}
	}
	return sqliteBusy(err) || d.endsTransaction(err) || errors.As(err, new(net.Error))
}

// admit always writes, whatever its purpose: see sqlite_admit.sql.
func (d *sqlite) admit(ctx context.Context, tx Tx, tok token.Token, _ purpose) (_ *blocked, err error) {
	raised, err := d.raise(ctx, tx, tok, sqliteAdmit, tok.Resource, tok.Number, tok.Holder)
	if raised || err != nil {
		return nil, err
	}
	mark, err := d.readMark(ctx, tx, tok)
	if err != nil {
		return nil, err
	}
	return nil, &guard.StaleError{Token: tok, Mark: mark}
}

// mint reads the number back under the write lock that the raise has taken.
func (d *sqlite) mint(ctx context.Context, tx Tx, tok token.Token, _ purpose) (number int64, _ *blocked, err error) {
	raised, err := d.raise(ctx, tx, tok, sqliteMint, tok.Resource, tok.Holder)
	if err != nil {
		return 0, nil, err
	}
	mark, err := d.readMark(ctx, tx, tok)
	if err == nil && !raised {
		err = exhausted(tok, nil)
	}
	return mark.Number, nil, err
}

// raise reports whether a statement has written the mark.
func (*sqlite) raise(ctx context.Context, tx Tx, tok token.Token, sql string, args ...any) (raised bool, err error) {
	result, err := tx.ExecContext(ctx, sql, args...)
	if sqliteMissing(err) {
		return false, fmt.Errorf("stdsql: the database lacks tables: run migrations.Up: %w", err)
	}
	var rows int64
	if err == nil {
		rows, err = result.RowsAffected()
	}
	if err != nil {
		return false, fmt.Errorf("stdsql: %s: %w", action(tok), err)
	}
	return rows == 1, nil
}

// readMark returns the mark, or the floor if there is no mark.
func (*sqlite) readMark(ctx context.Context, tx Tx, tok token.Token) (mark guard.Mark, err error) {
	if err := tx.QueryRowContext(ctx, sqliteMark, tok.Resource).Scan(&mark.Number, &mark.Holder); err != nil {
		return mark, fmt.Errorf("stdsql: mark of %s: %w", tok.Resource, err)
	}
	return mark, nil
}

// beforeEnd does nothing: SQLite's reply to COMMIT and ROLLBACK tells whether a transaction
// was open.
func (*sqlite) beforeEnd(context.Context, *transaction) (endedInFn bool, err error) {
	return false, nil
}

func (*sqlite) notApplied(err error) bool { return sqliteBusy(err) || sqliteViolated(err) }

// endsTransaction is true if the context of a statement ended: SQLite may have rolled
// back.
func (*sqlite) endsTransaction(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || sqliteInterrupted(err)
}

func (*sqlite) outcome(err error, _ time.Duration) error {
	if sqliteBusy(err) {
		return guard.ErrRetryable
	}
	return nil
}
