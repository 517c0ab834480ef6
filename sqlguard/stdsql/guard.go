package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Guard admits tokens in the transactions that write. Only DB is required. A
// Guard is cheap and safe for concurrent use; its fields must not change after
// first use. The token comes from the context, the resource from the caller:
// see [token.FromContext] for the errors of a context that has none, which
// reach nothing.
type Guard struct {
	// DB is where the resource is written and its mark is kept, a SQLite
	// database. Give its connections a busy_timeout: the longest that a writer
	// waits for the one before it. Without one it does not wait at all.
	DB *sql.DB
	// Tx are the options of the transactions that Update and UpdateAll begin.
	// Nil is the driver's default. Read only is an error.
	Tx *sql.TxOptions
	// DangerouslyObserve judges every token and refuses none. What would have
	// been refused goes to Observer, and the write goes on unguarded.
	DangerouslyObserve bool
	// Observer is told of refusals, while the transaction is open: it must not
	// write to the same database.
	Observer guard.Observer
}

var (
	errNoDB        = errors.New("stdsql: Guard has no DB")
	errReadOnly    = errors.New("stdsql: Guard.Tx is read only: an admission is a write")
	errNoResources = errors.New("stdsql: no resource was named")
)

// Update is [Guard.Update] of a Guard that has only a DB: what most programs
// need.
func Update(ctx context.Context, db *sql.DB, resource string, fn func(tx *sql.Tx) error) error {
	return (&Guard{DB: db}).Update(ctx, resource, fn)
}

// tokens returns the tokens that ctx carries for the resources, in bytewise
// order. In observe-only mode those are left out that cannot be judged.
func (g *Guard) tokens(ctx context.Context, resources []string) ([]token.Token, error) {
	if len(resources) == 0 {
		return nil, errNoResources
	}
	var toks []token.Token
	for _, resource := range slices.Compact(slices.Sorted(slices.Values(resources))) {
		tok, err := token.FromContext(ctx, resource)
		if err == nil {
			toks = append(toks, tok)
		}
		if err := g.Observer.Judge(ctx, err, g.DangerouslyObserve); err != nil {
			return nil, err
		}
	}
	return toks, nil
}
