package engine

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
)

// Dialect is a kind of database. Packages migrations and stdsql export it as their own.
// It is declared here because guards must not import migrations, which imports goose.
type Dialect int

// The dialects. The zero value is Postgres.
const (
	Postgres Dialect = iota
	MySQL
	SQLite
)

// String returns the dialect's name, as in "postgres". The folders of package
// migrations have these names.
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

// Rower queries one row.
type Rower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Mismatch returns the name of the database that replied to a statement with err, as in
// "MySQL or MariaDB", if it is not of dialect d. It returns "" if it is, or if the error
// does not show it.
//
// Every database rejects statements of another dialect. Errors of PostgreSQL's drivers
// have a method SQLState, errors of MySQL's driver a number. The errors of SQLite's
// drivers have nothing in common, so from is queried: in SQLite an error does not abort
// the transaction.
func Mismatch(ctx context.Context, from Rower, err error, d Dialect) string {
	var server interface{ SQLState() string }
	var version string
	answered, name := Dialect(-1), ""
	switch {
	case err == nil:
	case errors.As(err, &server) && server.SQLState() != "":
		answered, name = Postgres, "PostgreSQL"
	case MySQLNumber(err) != 0:
		answered, name = MySQL, "MySQL or MariaDB"
	case from.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil:
		answered, name = SQLite, "SQLite"
	}
	if answered == d {
		return ""
	}
	return name
}

// MySQLNumber returns the number of a MySQL server's error in err, or 0. The driver has
// it in a field of its error type, without a method.
func MySQLNumber(err error) uint64 {
	if fields := reflect.Indirect(reflect.ValueOf(err)); fields.Kind() == reflect.Struct {
		if number := fields.FieldByName("Number"); number.IsValid() && number.Kind() == reflect.Uint16 {
			return number.Uint()
		}
	}
	switch err := err.(type) { //nolint:errorlint // the chain itself is walked
	case interface{ Unwrap() error }:
		return MySQLNumber(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if number := MySQLNumber(err); number != 0 {
				return number
			}
		}
	}
	return 0
}

// Page explains each refusal and what to do about it.
const Page = "https://github.com/fencepost/fencepost/blob/main/docs/engines.md"

// ErrUnfenced is guard.ErrUnfenced. It is declared here because packages that
// must not import guard return it too.
var ErrUnfenced = errors.New("guard: the database is not known to fence, nothing applied")

// Error is returned for an engine or mode that is not known to fence. It unwraps to
// [ErrUnfenced].
type Error struct {
	// Engine names the engine and its version, as in "Galera (MariaDB 10.11.19)".
	Engine string
	// Reason is why the engine does not fence, and what to set or do.
	Reason string
}

// Error returns the engine, the reason, and the address of [Page].
func (e *Error) Error() string {
	return ErrUnfenced.Error() + ": " + e.Engine + ": " + e.Reason + " (" + Page + ")"
}

// Unwrap returns [ErrUnfenced].
func (e *Error) Unwrap() error { return ErrUnfenced }
