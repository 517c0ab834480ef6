package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// CheckError says what is wrong with a database. It is the only kind of error
// that [Set.Check] returns where the database has answered.
type CheckError struct {
	// Findings are sentences, each with its cure at the end, mostly as SQL. There
	// is at least one.
	Findings []string
}

// Error returns the findings on one line.
func (e *CheckError) Error() string { return "migrations: " + strings.Join(e.Findings, "; ") }

// Check returns nil when the schema "fencepost" of a PostgreSQL database is fit
// for this library. It is [Set.Check] of the zero Set.
func Check(ctx context.Context, db *sql.DB) error { return Set{}.Check(ctx, db) }

// Check is for a program's start: it returns nil when the database has what
// this library needs, as the library needs it, and a [*CheckError] when it has
// not. Any other error means that the database could not be asked.
//
// On PostgreSQL it finds a schema that is not there, or older than this library;
// tables and functions that were dropped; a table or sequence that is UNLOGGED;
// a sequence with CACHE, CYCLE, or another INCREMENT or MAXVALUE; rights that
// this role lacks; and rights that it was granted and must not have, as that to
// update marks by itself. (A role that owns the tables has all rights, as in
// development, and passes.) It asks the catalogs and the function version(), or
// where that is missing the version table of whoever may read it, in
// at most three statements that lock and write nothing. So the application's own
// role can run it, which has USAGE on the schema and nothing else, also on a
// standby, and behind a pooler in the query modes that the pooler supports.
//
// On SQLite and MySQL it finds tables that are not there, or not InnoDB's, and
// where [Set.Up] applied the migrations and this role may read so, those that are
// missing.
//
// A database that is newer than the library is fine: old programs run beside
// new ones while a deployment goes on.
func (s Set) Check(ctx context.Context, db *sql.DB) error {
	name, table, err := s.parts()
	if err != nil {
		return err
	}
	var findings []string
	switch s.Dialect {
	case MySQL:
		findings, err = checkMySQL(ctx, db, s)
	case SQLite:
		findings, err = checkSQLite(ctx, db, s, table)
	default:
		findings, err = checkPostgres(ctx, db, name, s.newest())
	}
	if err != nil {
		return fmt.Errorf("migrations: %s: %w", s.Dialect, err)
	}
	if len(findings) > 0 {
		return &CheckError{Findings: findings}
	}
	return nil
}

// older is the finding that a database is behind this library, by how much
// only where version is not below 0.
func older(what string, version, newest int64) string {
	at := fmt.Sprintf("at version %d", version)
	if version < 0 {
		at = "older, without a function version()"
	}
	return fmt.Sprintf("%s is %s, and this program needs %d: apply the migrations, with fencepost migrate up "+
		"or whatever applied the others", what, at, newest)
}

// lost is the finding that a table is not there.
func lost(table string) string {
	return "table " + table + " is not there: restore it from a backup; a new one, as fencepost migrate print makes it, " +
		"has forgotten what was refused"
}
