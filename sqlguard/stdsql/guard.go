package stdsql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/token"
)

// Guard admits tokens in the transactions that write. Only DB is required. A Guard is
// cheap and safe for concurrent use. Its fields must not change after first use.
//
// For a write, the context carries the token and the caller names the resource. If ctx
// carries no token for the resource, the write returns the error of [token.FromContext]
// and nothing is written. Admit and Mint take no token from the context.
type Guard struct {
	// DB is the database that has the resource's rows and its mark. It must not be nil.
	// Each of its connections is checked for its engine before its first admission. An
	// engine that is not known to fence is refused: see DangerouslyTrustEngine. Guards that
	// are the Stores of one process's httpguard.Middlewares must share one DB: see
	// [Guard.Identity].
	//
	// On SQLite, set a busy_timeout on its connections: it bounds how long a writer waits
	// for the previous one. Without it a writer does not wait at all.
	DB *sql.DB
	// Dialect is the kind of database. If DB seems to be of another kind, the error
	// states that. The zero value is [Postgres].
	Dialect Dialect
	// Schema is the schema of the marks on PostgreSQL, as given to package migrations.
	// The search_path has no effect. Empty means "fencepost". For MySQL and SQLite it
	// must be empty: MySQL's marks are in the connection's database.
	Schema string
	// Tx has the options of the transactions that Update and UpdateAll begin. Every
	// isolation level is safe: the snapshot is taken after the last older write. A
	// read-only Tx is an error. Nil means the driver's default.
	Tx *sql.TxOptions
	// IdleTimeout bounds how long a holder that was paused inside a transaction can block
	// its successor. If the lease's TTL is shorter than 5 s, set IdleTimeout to the TTL.
	// Zero means 5 s. Negative means no bound.
	//
	// On PostgreSQL a transaction of Update, UpdateAll, Admit, Mint, Join or MintTx may
	// be idle for IdleTimeout, or for the session's idle_in_transaction_session_timeout
	// if that is shorter. Then the server ends it, and its writer gets
	// [guard.ErrEvicted]. A newer token waits for older writers for the same time. Then
	// it ends their sessions and is admitted. If the role may not end sessions, it waits
	// until its context ends. Join and MintTx end no session and return
	// [guard.ErrRetryable].
	//
	// On MySQL it is the session's wait_timeout, in whole seconds, during an Update,
	// UpdateAll, Admit or Mint. If MariaDB's idle_transaction_timeout is set, that
	// applies too. Join leaves the session's settings unchanged. A holder that is paused
	// with an unread result, or inside LOAD DATA LOCAL, is bounded only by the server's
	// net_write_timeout and net_read_timeout. The guard evicts no session: a newer token
	// waits for older writers for innodb_lock_wait_timeout (50 s by default) and then
	// gets [guard.ErrRetryable]. The bound costs two round trips in each transaction. To
	// save them, set a wait_timeout in the DSN and a negative IdleTimeout.
	//
	// On SQLite it has no effect: there is no server that could end a transaction.
	IdleTimeout time.Duration
	// DangerouslyReportOnly makes the Guard compare every token and refuse none. A token
	// that would have been refused is reported to Hooks, and the write proceeds
	// unguarded. The same happens to a newer token that has waited for older writers for
	// IdleTimeout, or for MySQL's lock wait timeout. An engine that is not known to fence
	// is reported too. No session is ended or bounded. [guard.ErrClaimFirst] and ordinary
	// errors are still returned. False refuses.
	DangerouslyReportOnly bool
	// DangerouslyTrustEngine skips the check of the engine. Set it only if the engine is
	// known to fence, or if all writers of a cluster (Galera, a replication group in
	// multi-primary mode) write to one node. If that is wrong, stale writes are applied
	// without an error. False means that an engine that is not known to fence is refused
	// with [guard.ErrUnfenced].
	DangerouslyTrustEngine bool
	// Retention is how long [Guard.Once] records a unit at least, by the server's clock. A
	// repeat does not extend it. MySQL and SQLite round up to whole seconds. Zero means
	// [guard.DefaultRetention], 30 days. Negative is an error.
	Retention time.Duration
	// Hooks are called for refusals while the transaction is open, so they must not write
	// to the same database. The zero value calls none.
	Hooks guard.Hooks
}

var (
	errNoDB        = errors.New("stdsql: Guard has no DB")
	errReadOnly    = errors.New("stdsql: Guard.Tx is read only: an admission is a write")
	errNoResources = errors.New("stdsql: no resources")
)

var _ guard.Identified = (*Guard)(nil)

// identity identifies the marks of a schema in a database.
type identity struct {
	db     *sql.DB
	schema string
}

// Identity implements [guard.Identified]. Two Guards have the same identity if they have
// the same DB and schema. Two *sql.DB of one database are different, since database/sql
// does not expose their addresses, and so are a *sql.DB and a pgx pool. Middlewares whose
// Stores differ do not wait for each other's requests. So share one *sql.DB between the
// middlewares of a process, or give them one httpguard.InFlight.
func (g *Guard) Identity() any { return identity{g.DB, cmp.Or(g.Schema, defaultSchema)} }

// maxResources is how many resources one call may admit on PostgreSQL, where each takes
// one or two entries in a lock table that all sessions share.
const maxResources = 1000

// Update is [Guard.Update] for a Guard that has only a DB, of PostgreSQL.
func Update(ctx context.Context, db *sql.DB, resource string, fn func(tx *sql.Tx) error) error {
	return (&Guard{DB: db}).Update(ctx, resource, fn)
}

// defaultIdle is Guard.IdleTimeout if it is zero.
const defaultIdle = 5 * time.Second

// idleBound returns IdleTimeout in whole milliseconds, or 0 for no bound.
func (g *Guard) idleBound() time.Duration {
	idle := g.IdleTimeout
	switch {
	case idle < 0:
		return 0
	case idle == 0:
		return defaultIdle
	}
	return time.Duration(pgadmit.Milliseconds(idle)) * time.Millisecond
}

// call is one call of a Guard: which tokens it admits, and for what purpose.
type call struct {
	*Guard
	dialect
	toks    []token.Token
	purpose purpose
	minted  *int64 // if not nil, the one token is minted, and this is set to its number
	quiet   bool   // a refusal is returned without a call of the hooks
}

// purpose is what an admission is for.
type purpose int

const (
	writing       purpose = iota // a transaction of the Guard's own, after a claim if one is needed
	joining                      // a transaction of the caller's
	claiming                     // the mark alone, in a transaction of its own
	claimingFirst                // like claiming, and then the same tokens are admitted for writing
)

func (p purpose) claims() bool { return p == claiming || p == claimingFirst }

// newCall returns a call without a dialect if it returns an error.
func (g *Guard) newCall(ctx context.Context, p purpose, toks ...token.Token) (*call, error) {
	g = g.forSimulation(ctx)
	d, err := newDialect(g)
	return &call{Guard: g, dialect: d, purpose: p, toks: toks}, err
}

// isLocal reports whether there is no server, and so no connection that can fail.
func (g *Guard) isLocal() bool { return g.Dialect == SQLite }

// tokens returns the tokens that ctx carries for the resources, in bytewise order. In
// report-only mode missing tokens are left out.
func (g *Guard) tokens(ctx context.Context, resources []string) ([]token.Token, error) {
	if len(resources) == 0 {
		return nil, errNoResources
	}
	names := slices.Compact(slices.Sorted(slices.Values(resources)))
	if g.Dialect == Postgres && len(names) > maxResources {
		return nil, fmt.Errorf("stdsql: nothing was sent: %d resources in one call, the limit on PostgreSQL is %d", len(names), maxResources)
	}
	var toks []token.Token
	for _, resource := range names {
		tok, err := token.FromContext(ctx, resource)
		if err == nil {
			toks = append(toks, tok)
		}
		if err := g.Hooks.Outcome(ctx, err, g.DangerouslyReportOnly); err != nil {
			return nil, err
		}
	}
	return toks, nil
}
