package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// Tx is an open transaction: a *sql.Tx, or a type that wraps one. If it is a struct, or a
// pointer to one, that embeds a *sql.Tx, as bun.Tx and sqlx.Tx do, the embedded *sql.Tx
// is used.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Join admits the token that ctx carries for resource in a transaction that the caller
// has begun. Call it before the transaction reads anything that the write depends on, if
// possible as its first statement: an earlier read may lack an older token's last write.
// It does not use DB.
//
// Claim first ([Guard.Admit]), before the transaction begins. A token that is newer than
// its mark can raise it inside the transaction on SQLite, and on PostgreSQL under READ
// COMMITTED. Otherwise Join returns [guard.ErrClaimFirst]. On MySQL under its default
// REPEATABLE READ, and on SQLite, a transaction keeps its snapshot. If another writer
// committed after that snapshot, Join returns [guard.ErrRetryable].
//
// After an error a caller that ignores it writes nothing, even if the error occurred
// before anything was sent (no token, an ended ctx). On PostgreSQL the transaction is
// aborted: it can only be rolled back, or rolled back to an earlier savepoint. MySQL and
// SQLite have no aborted transactions, and a statement after a ROLLBACK commits by
// itself. There Join calls tx's method Rollback, if it has the one of *sql.Tx, and later
// uses of tx return [sql.ErrTxDone]. Inside the fn of an Update, that Update commits
// nothing instead. If tx is a wrapper without that method, the caller must roll back: the
// transaction would still accept writes, unguarded. In report-only mode nothing is rolled
// back.
//
// An admission holds until the transaction ends. After Join and a ROLLBACK TO a savepoint
// before it, writes are unguarded. Writes are also unguarded after a statement at which
// MySQL commits implicitly. Update detects that and Join cannot (see [Guard.Update]).
//
// Join refuses a tx that can begin a transaction (*sql.DB, *sql.Conn, and their
// wrappers), unless it embeds a *sql.Tx. On such a tx the admission and the write would
// be two transactions, and a newer token could be admitted between them. Join cannot
// detect a wrapper that hides its BeginTx, except on SQLite, where it returns
// [guard.ErrUnfenced] if no transaction is open.
func (g *Guard) Join(ctx context.Context, tx Tx, resource string) error {
	return g.JoinAll(ctx, tx, []string{resource})
}

// JoinAll is [Guard.Join] for several resources. All are admitted or none, in bytewise
// order. A name given twice counts once. No names are an error. On PostgreSQL more than
// 1,000 are an error too (see [Guard.UpdateAll]).
func (g *Guard) JoinAll(ctx context.Context, tx Tx, resources []string) error {
	return g.admitInto(ctx, tx, nil, func(g *Guard) ([]token.Token, error) { return g.tokens(ctx, resources) })
}

// admitInto admits or mints in the caller's transaction. After an error nothing more can
// be written through it, except in report-only mode.
func (g *Guard) admitInto(ctx context.Context, tx Tx, minted *int64, toks func(g *Guard) ([]token.Token, error)) error {
	tx, err := unwrapTx(tx)
	if err != nil {
		return err
	}
	c, err := g.newCall(ctx, joining)
	joined := c.DangerouslyReportOnly
	defer func() { // also if a hook panics
		if !joined {
			abortTx(ctx, c.dialect, tx)
		}
	}()
	if err != nil {
		return err
	}
	c.minted = minted
	if c.toks, err = toks(c.Guard); err != nil {
		return err
	}
	inner, cancel, err := writectx.Start(ctx)
	if err != nil {
		return notSent(err)
	}
	defer cancel()
	admitted := joinSteps(ctx, tx) // after the caller's reads
	inner = withKey(inner, g)
	var block *blocked
	if err = c.checkTx(inner, tx); err == nil {
		block, err = c.admitAll(inner, tx)
	}
	if block != nil {
		err = block.error()
	}
	if err != nil {
		return guard.WithCause(ctx, c.withOutcome(err, 0))
	}
	joined = true
	admitted()
	return nil
}

// updateTxs maps the *sql.Tx of each Update whose fn runs to its *transaction. If Join
// rolled such a transaction back, the outcome of the Update would be lost.
var updateTxs sync.Map

// abortTx prevents further writes through tx. d is nil if the dialect is unknown.
func abortTx(ctx context.Context, d dialect, tx Tx) {
	if pg, is := d.(*postgres); is && pg.abort(ctx, tx) {
		return
	}
	if own, is := tx.(*sql.Tx); is {
		if t, found := updateTxs.Load(own); found {
			t.(*transaction).joinFailed.Store(true)
			return
		}
	}
	if open, can := tx.(interface{ Rollback() error }); can {
		_ = open.Rollback() // if it fails the connection is gone, and the server rolls back
	}
}

var errNoTx = errors.New("stdsql: an admission needs a transaction, not nil")

// unwrapTx returns the transaction in tx. If a library's transaction embeds a *sql.Tx, it
// returns that: the library's methods may replace placeholders, and its Rollback may only
// roll back to a savepoint, which would leave the rest of the transaction able to write
// unguarded.
//
// Any other value with a method named BeginTx is refused, since it is no transaction. The
// signature is not compared: wrappers return their own types from it.
func unwrapTx(tx Tx) (Tx, error) {
	if tx == nil {
		return nil, errNoTx
	}
	value := reflect.ValueOf(tx)
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, errNoTx
	}
	if inner, found := embeddedTx(value); found {
		if inner == nil {
			return nil, errNoTx
		}
		return inner, nil
	}
	if value.MethodByName("BeginTx").IsValid() {
		return nil, fmt.Errorf("stdsql: an admission needs a transaction: %T can begin one, "+
			"hand over what it began, or the *sql.Tx inside it if it is a transaction that nests others", tx)
	}
	return tx, nil
}

var sqlTx = reflect.TypeFor[*sql.Tx]()

// embeddedTx returns the *sql.Tx that v is or embeds, at any depth of exported fields.
func embeddedTx(v reflect.Value) (tx *sql.Tx, found bool) {
	if v.IsValid() && v.Type() == sqlTx {
		if !v.CanInterface() {
			return nil, false
		}
		return v.Interface().(*sql.Tx), true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return embeddedTx(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).Anonymous {
				continue
			}
			if tx, found := embeddedTx(v.Field(i)); found {
				return tx, true
			}
		}
	}
	return nil, false
}
