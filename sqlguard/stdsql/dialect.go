package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/token"
)

// Dialect is a kind of database. The zero value is [Postgres].
type Dialect int

const (
	// Postgres is PostgreSQL, version 13 or newer, through any driver whose
	// errors have a method SQLState() string, as those of pgx/stdlib and lib/pq.
	Postgres Dialect = iota
	// MySQL is MySQL, version 5.7 or newer, and MariaDB, version 10.2 or newer,
	// through github.com/go-sql-driver/mysql. Run so far on MariaDB 10.11 alone.
	MySQL
	// SQLite is SQLite, version 3.24 or newer, through any driver.
	SQLite
)

// String returns the dialect's name, as in "postgres".
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "postgres"
	case MySQL:
		return "mysql"
	case SQLite:
		return "sqlite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// dialect is what differs between databases. One value serves one call of a
// Guard.
type dialect interface {
	// options are those of a transaction that is only to raise a mark, where
	// the Guard's are given.
	options(given *sql.TxOptions) *sql.TxOptions
	// enter prepares a connection for a transaction, leave undoes that.
	enter(ctx context.Context, conn *sql.Conn, w way, toks []token.Token) error
	leave(conn *sql.Conn) error
	// admit raises the mark to tok, as far as w lets it. It returns the refusal,
	// a *blocked, or another error.
	admit(ctx context.Context, tx Tx, tok token.Token, w way) error
	// hold comes behind the admissions, check before COMMIT and ROLLBACK. Its
	// error is errEndedInFn, or says that the COMMIT need not be sent.
	hold(ctx context.Context, t *transaction) error
	check(ctx context.Context, t *transaction) error
	// clear ends what may still be open on a connection whose transaction is over
	// to database/sql, because ROLLBACK was answered with err. It reports whether
	// anything was.
	clear(t *transaction, err error) bool
	// undone reports whether an error of COMMIT proves that nothing was applied.
	undone(t *transaction, err error) bool
	// over reports whether an error of COMMIT or ROLLBACK says that there was
	// no transaction any more.
	over(err error) bool
	// cut reports whether an error is how a statement is told that it ended the
	// transaction.
	cut(err error) bool
	// outcome returns what err means, if anything, of a transaction of that age
	// of which nothing was applied.
	outcome(err error, age time.Duration) error
	// patience is how long a claim waits for older writers before it ends their
	// sessions with evict. Zero: it does not, the database bounds its wait.
	patience() time.Duration
	evict(ctx context.Context, db *sql.DB, tok token.Token) error
}

// way is what an admission is for.
type way int

const (
	writing  way = iota // a transaction of the Guard's own, behind a claim where need be
	joining             // somebody else's transaction
	claiming            // the mark alone, in a transaction of its own
)

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
