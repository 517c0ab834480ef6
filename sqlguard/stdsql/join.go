package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// Tx is a transaction that is open: *sql.Tx, or whatever wraps one.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

var errNoTx = errors.New("stdsql: Join needs a transaction, not nil")

// Join admits the tokens that ctx carries for the resources in a transaction
// that is open already, in bytewise order. It must come before anything is read
// that the write depends on, as its first statement best of all: what was read
// before may lack an older token's last write.
//
// Claim first, before that transaction begins ([Guard.Admit]). A token that has
// yet to raise its mark can do so inside it on SQLite, and on PostgreSQL under
// READ COMMITTED; elsewhere the error is [guard.ErrClaimFirst]. MySQL, under
// its default REPEATABLE READ, and SQLite go on showing what a transaction has
// read before it joined: where it was overtaken meanwhile, the error is
// [guard.ErrRetryable].
//
// After an error the transaction must be rolled back. On PostgreSQL it is
// aborted and can do nothing else; on the others it would still take writes,
// unguarded, and keeps what was admitted before the error. What was admitted
// holds until the transaction ends. Join, ROLLBACK TO a savepoint before it,
// write: that write is unguarded. So is what follows a statement at which MySQL
// commits by itself, which Update finds out and Join cannot (see [Guard.Update]).
//
// A tx that can begin a transaction (*sql.DB, *sql.Conn, and what wraps them)
// is refused: there, admission and write would be two transactions, and a
// stale write gets between them. What a wrapper hides Join cannot see. DB plays
// no part.
func (g *Guard) Join(ctx context.Context, tx Tx, resources ...string) error {
	if err := open(tx); err != nil {
		return err
	}
	g = g.simulated(ctx)
	d, err := g.dialect()
	if err != nil {
		return err
	}
	toks, err := g.tokens(ctx, resources)
	if err != nil {
		return err
	}
	ask, answered := asking(ctx)
	defer answered()
	if err := g.admit(point.Within(ask, g), d, tx, toks, joining, g.judge); err != nil {
		return guard.WithLoss(ctx, meaning(d, err, 0))
	}
	if point.Listening(ctx) {
		point.At(ctx, point.Admitted, keyOf(tx))
	}
	return nil
}

// keyOf returns what a listener knows the caller's transaction by.
func keyOf(tx Tx) any {
	if reflect.ValueOf(tx).Comparable() {
		return tx
	}
	return new(transaction)
}

// open goes by the name of the method, since wrappers return types of their
// own from it.
func open(tx Tx) error {
	if tx == nil {
		return errNoTx
	}
	if reflect.ValueOf(tx).MethodByName("BeginTx").IsValid() {
		return fmt.Errorf("stdsql: Join needs a transaction: %T can begin one, hand over what it began", tx)
	}
	return nil
}
