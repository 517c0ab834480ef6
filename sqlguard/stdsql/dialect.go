package stdsql

import (
	"context"
	"embed"
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

// dialect is what every database decides in its own way. What only one of them needs is a
// method of that one's type. A value serves one call of a Guard.
type dialect interface {
	// probe returns an *engine.Error if the engine at from is not known to fence, or
	// another error if that was not found out. from is a transaction on SQLite, and
	// otherwise may be a connection too.
	probe(ctx context.Context, from Tx) error
	// admit raises the mark to tok, as far as p allows. It returns the refusal or another
	// error.
	admit(ctx context.Context, tx Tx, tok token.Token, p purpose) (*blocked, error)
	// mint raises the mark of tok's resource to a number above it, with tok's holder, and
	// returns the number. tok has no number.
	mint(ctx context.Context, tx Tx, tok token.Token, p purpose) (number int64, block *blocked, err error)
	// beforeEnd runs before COMMIT and ROLLBACK. It reports whether the transaction ended
	// inside fn. If it returns an error, COMMIT need not be sent.
	beforeEnd(ctx context.Context, t *transaction) (endedInFn bool, err error)
	// endsTransaction reports whether err, of a statement, means that the statement ended
	// the transaction.
	endsTransaction(err error) bool
	// notApplied reports whether err, of COMMIT, proves that nothing was applied.
	notApplied(err error) bool
	// outcome returns the outcome that err means, or nil, for a transaction of that age
	// of which nothing was applied.
	outcome(err error, age time.Duration) error
	// insertUnit inserts a unit of Once. It returns the unit that exists if there is one.
	// setResult sets the result of a unit that tx has inserted. findUnit returns the unit
	// that exists, or nil.
	insertUnit(ctx context.Context, tx Tx, u *unit) (*found, error)
	setResult(ctx context.Context, tx Tx, u *unit, result []byte) error
	findUnit(ctx context.Context, from engine.Rower, u *unit) (*found, error)
}

var errSchema = errors.New("stdsql: only PostgreSQL has schemas: Guard.Schema must be empty")

func newDialect(g *Guard) (dialect, error) {
	switch {
	case g.Dialect == Postgres:
		return &postgres{guard: g, statements: statementsOf(g.Schema), bound: g.idleBound()}, nil
	case g.Schema != "":
		return nil, errSchema
	case g.Dialect == MySQL && g.DangerouslyReportOnly: // which bounds no session
		return &mysql{guard: g, rowUnits: mysqlUnits}, nil
	case g.Dialect == MySQL:
		return &mysql{guard: g, rowUnits: mysqlUnits, bound: g.idleBound()}, nil
	case g.Dialect == SQLite:
		return &sqlite{sqliteUnits}, nil
	}
	return nil, fmt.Errorf("stdsql: unknown dialect %s", g.Dialect)
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

//go:embed *.sql
var files embed.FS

// statement returns the text of a file of this package.
func statement(name string) string {
	file, err := files.ReadFile(name)
	if err != nil {
		panic(err) // when a program starts
	}
	return stripHeader(string(file))
}

// stripHeader returns an SQL file without its header comment.
func stripHeader(file string) string {
	for strings.HasPrefix(file, "--") {
		_, file, _ = strings.Cut(file, "\n")
	}
	return strings.TrimSpace(file)
}
