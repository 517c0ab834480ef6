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
// that is open already. It must come before anything is read that the write
// depends on, as its first statement best of all: a transaction that has read
// before, and was overtaken, cannot write any more ([guard.ErrRetryable]).
//
// After an error the transaction must be rolled back: it would still take
// writes, unguarded, and keeps what was admitted before the error. What was
// admitted holds until the transaction ends. Join, ROLLBACK TO a savepoint
// before it, write: that write is unguarded.
//
// A tx that can begin a transaction (*sql.DB, *sql.Conn, and what wraps them)
// is refused: there, admission and write would be two transactions, and a
// stale write gets between them. What a wrapper hides Join cannot see.
func (g *Guard) Join(ctx context.Context, tx Tx, resources ...string) error {
	if err := open(tx); err != nil {
		return err
	}
	toks, err := g.tokens(ctx, resources)
	if err != nil {
		return err
	}
	ask, answered := asking(ctx)
	defer answered()
	if err := g.admit(point.Within(ask, g), tx, toks); err != nil {
		return guard.WithLoss(ctx, sqlite.outcome(err))
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
