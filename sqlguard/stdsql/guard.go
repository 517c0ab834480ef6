package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Guard admits tokens in the transactions that write. Only DB is required. A
// Guard is cheap and safe for concurrent use; its fields must not change after
// first use. The token comes from the context, the resource from the caller:
// see [token.FromContext] for the errors of a context that has none, which
// reach nothing.
type Guard struct {
	// DB is where the resource is written and its mark is kept.
	//
	// On SQLite give its connections a busy_timeout: the longest that a writer
	// waits for the one before it. Without one it does not wait at all.
	DB *sql.DB
	// Dialect is what DB speaks.
	Dialect Dialect
	// Schema is the schema of the marks on PostgreSQL, as given to package
	// migrations. Empty means "fencepost". The search_path does not matter. On
	// the others it must be empty: MySQL's marks are in the connection's
	// database.
	Schema string
	// Tx are the options of the transactions that Update and UpdateAll begin.
	// Nil is the driver's default. Read only is an error. Any isolation level
	// will do: the snapshot is younger than the last older write.
	Tx *sql.TxOptions
	// Idle bounds how long a holder that was paused inside a transaction can
	// keep its successor waiting. Zero means 5 s; give the lease's ttl if that
	// is less. Negative means no bound at all.
	//
	// On PostgreSQL it is the longest that a transaction of Update, UpdateAll,
	// Admit or Join may be idle, unless the session's own
	// idle_in_transaction_session_timeout is shorter: then the server ends it,
	// and its writer is told [guard.ErrEvicted]. It is also how long a newer
	// token waits for older writers, before it ends their sessions and goes in;
	// where the role may not do that, it waits on until its context ends. Join
	// ends nobody's session: there the error is [guard.ErrRetryable].
	//
	// On MySQL it is the session's wait_timeout, in whole seconds, for the time
	// of an Update, UpdateAll or Admit; an idle_transaction_timeout of MariaDB's
	// counts in its place where one is set. Join leaves the session alone. A
	// holder that is paused with a result that it does not read, or inside
	// LOAD DATA LOCAL, is bounded by the server's net_write_timeout and
	// net_read_timeout alone. Nobody is evicted: a newer token waits for older
	// writers as long as innodb_lock_wait_timeout says (50 s by default), and
	// hears [guard.ErrRetryable] then. That costs two trips in each
	// transaction; none where Idle is negative and the DSN sets the timeout.
	//
	// SQLite has no server that could end anything: see the package's text.
	Idle time.Duration
	// DangerouslyObserve judges every token and refuses none. What would have
	// been refused goes to Observer, and the write goes on unguarded, as it does
	// for a newer token that older writers keep waiting for longer than Idle, or
	// than MySQL lets it. Nobody's session is ended or bounded.
	// [guard.ErrClaimFirst] and the ordinary errors remain.
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

// Update is [Guard.Update] of a Guard that has only a DB, for PostgreSQL.
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
