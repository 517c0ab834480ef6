package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/token"
)

// Dialect is a kind of database. It is the same type as in package migrations. Its String
// method returns, for example, "postgres". The zero value is [Postgres].
type Dialect = engine.Dialect

const (
	// Postgres is PostgreSQL 13 or newer, through any driver whose errors have a method
	// SQLState() string, as in pgx/stdlib and lib/pq.
	Postgres = engine.Postgres
	// MySQL is MySQL 5.7 or newer and MariaDB 10.2 or newer, through
	// github.com/go-sql-driver/mysql. It was tested on MariaDB 10.11 only. Other engines
	// that speak its protocol are refused: see [Guard.DangerouslyTrustEngine].
	MySQL = engine.MySQL
	// SQLite is SQLite 3.24 or newer, through any driver.
	SQLite = engine.SQLite
)

// dialect has the parts that differ between databases. One value serves one call of a
// Guard.
type dialect interface {
	// isLocal reports whether there is no server, and so no connection that can fail.
	isLocal() bool
	// abortOnServer makes the server refuse later statements of the transaction after a
	// Join that failed. It returns false if the server cannot do that.
	abortOnServer(ctx context.Context, tx Tx) bool
	// claimOptions returns the options of a transaction that only raises a mark. given
	// are the options of the Guard.
	claimOptions(given *sql.TxOptions) *sql.TxOptions
	// probe returns an *engine.Error if the engine at from is not known to fence, or
	// another error if that was not found out. from is a transaction if probesTx is true,
	// and otherwise may be a connection too.
	probe(ctx context.Context, from Tx) error
	probesTx() bool
	// prepareConn prepares a connection for the transaction of a. restoreConn undoes
	// that.
	prepareConn(ctx context.Context, conn *sql.Conn, a admission) error
	restoreConn(conn *sql.Conn) error
	// admit raises the mark to tok, as far as p allows. It returns the refusal or another
	// error.
	admit(ctx context.Context, tx Tx, tok token.Token, p purpose) (*blocked, error)
	// mint raises the mark of tok's resource to a number above it, with tok's holder, and
	// returns the number. tok has no number.
	mint(ctx context.Context, tx Tx, tok token.Token, p purpose) (number int64, block *blocked, err error)
	// afterAdmit runs after the admissions, beforeEnd before COMMIT and ROLLBACK.
	// beforeEnd reports whether the transaction ended inside fn. If it returns an error,
	// COMMIT need not be sent.
	afterAdmit(ctx context.Context, t *transaction) error
	beforeEnd(ctx context.Context, t *transaction) (endedInFn bool, err error)
	// ensureRolledBack ends a transaction that may still be open on a connection although
	// database/sql considers it over, because ROLLBACK returned err. It reports whether
	// one was open.
	ensureRolledBack(t *transaction, err error) bool
	// notApplied reports whether an error of COMMIT proves that nothing was applied.
	notApplied(t *transaction, err error) bool
	// settle returns the error of a COMMIT that failed with lost and may have been applied.
	// It returns nil if it was applied.
	settle(ctx context.Context, t *transaction, lost error) error
	// insertUnit inserts a unit of Once. It returns the unit that exists if there is one.
	// setResult sets the result of a unit that tx has inserted. findUnit returns the unit
	// that exists, or nil.
	insertUnit(ctx context.Context, tx Tx, u *unit) (*found, error)
	setResult(ctx context.Context, tx Tx, u *unit, result []byte) error
	findUnit(ctx context.Context, from engine.Rower, u *unit) (*found, error)
	// noTransaction reports whether err, of COMMIT or ROLLBACK, means that no transaction
	// was open.
	noTransaction(err error) bool
	// endsTransaction reports whether err, of a statement, means that the statement ended
	// the transaction.
	endsTransaction(err error) bool
	// outcome returns the outcome that err means, or nil, for a transaction of that age
	// of which nothing was applied.
	outcome(err error, age time.Duration) error
	// evictAfter is how long a claim waits for older writers before it ends their
	// sessions with evict. If it is zero, the claim ends no session, and the
	// database bounds its wait.
	evictAfter() time.Duration
	evict(ctx context.Context, db *sql.DB, tok token.Token) error
}

var errSchema = errors.New("stdsql: only PostgreSQL has schemas: Guard.Schema must be empty")

func (g *Guard) dialect() (dialect, error) {
	switch {
	case g.Dialect == Postgres:
		return newPostgres(g), nil
	case g.Schema != "":
		return nil, errSchema
	case g.Dialect == MySQL:
		return newMySQL(g), nil
	case g.Dialect == SQLite:
		return &sqlite{}, nil
	}
	return nil, fmt.Errorf("stdsql: unknown dialect %s", g.Dialect)
}

// baseDialect has the methods that are the same, or empty, in most dialects.
type baseDialect struct{}

func (baseDialect) isLocal() bool                                                  { return false }
func (baseDialect) abortOnServer(context.Context, Tx) bool                         { return false }
func (baseDialect) probesTx() bool                                                 { return false }
func (baseDialect) claimOptions(given *sql.TxOptions) *sql.TxOptions               { return given }
func (baseDialect) prepareConn(context.Context, *sql.Conn, admission) error        { return nil }
func (baseDialect) restoreConn(*sql.Conn) error                                    { return nil }
func (baseDialect) afterAdmit(context.Context, *transaction) error                 { return nil }
func (baseDialect) beforeEnd(context.Context, *transaction) (none bool, err error) { return none, nil }
func (baseDialect) settle(_ context.Context, t *transaction, lost error) error {
	return t.unknownOutcome(lost)
}
func (baseDialect) noTransaction(error) bool                                       { return false }
func (baseDialect) endsTransaction(error) bool                                     { return false }
func (baseDialect) evictAfter() time.Duration                                      { return 0 }
func (baseDialect) evict(_ context.Context, _ *sql.DB, _ token.Token) (none error) { return none }

// ensureRolledBack discards the connection: a server rolls back when a connection ends.
func (baseDialect) ensureRolledBack(t *transaction, err error) bool {
	if !errors.Is(err, sql.ErrTxDone) {
		t.discard()
	}
	return false
}

// containsAny returns a function that reports whether an error's text contains one of
// texts.
func containsAny(texts ...string) func(err error) bool {
	return func(err error) bool {
		for _, text := range texts {
			if err != nil && strings.Contains(err.Error(), text) {
				return true
			}
		}
		return false
	}
}

// stripHeader returns an SQL file without its header comment.
func stripHeader(file string) string {
	for strings.HasPrefix(file, "--") {
		_, file, _ = strings.Cut(file, "\n")
	}
	return strings.TrimSpace(file)
}
