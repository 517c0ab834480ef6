package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed" // the queries
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/fencepost/fencepost/internal/engine"
)

var (
	//go:embed check_schema.sql
	checkSchemaSQL string
	//go:embed check_postgres.sql
	checkPostgresSQL string
)

// CheckError lists the defects of a database. [Set.Check] returns it if the database has
// answered its queries.
type CheckError struct {
	// Findings are sentences, each with its remedy at the end, mostly as SQL. There is at
	// least one.
	Findings []string
}

// Error returns the findings on one line.
func (e *CheckError) Error() string { return "migrations: " + strings.Join(e.Findings, "; ") }

// Check returns nil if the database has what this library needs, and a [*CheckError] if
// it does not. Call it when a program starts. Any other error means that the database did
// not answer.
//
// On PostgreSQL it reports
//
//   - an engine that is not known to fence, and then nothing else;
//   - a schema that does not exist, or is older than this library;
//   - tables and functions that were dropped;
//   - functions whose body is not this library's: the schema is of an earlier state of the
//     same version, or they were changed by hand;
//   - a table or sequence that is UNLOGGED;
//   - a sequence with CACHE, CYCLE, or another INCREMENT or MAXVALUE;
//   - rights that this role lacks;
//   - rights that this role was granted and must not have, for example to update marks
//     directly. A role that owns the tables has all rights, as in development, and
//     passes.
//
// It reads the catalogs and calls the function version(). If that is missing, it reads
// the version table if the role may. It runs at most four statements, which lock and
// write nothing. So the application's own role, which has only USAGE on the schema, can
// run it, also on a standby, and behind a pooler in the query modes that the pooler
// supports.
//
// On SQLite and MySQL it reports tables that do not exist or are not InnoDB's, and
// missing migrations if [Set.Up] applied the others and this role may read the
// version table. On MySQL it reports an engine that is not known to fence, and rights
// that this account lacks.
//
// A database that is newer than the library passes, since old and new programs run side
// by side during a deployment.
func (s Set) Check(ctx context.Context, db *sql.DB) error {
	table, err := s.versions()
	if err != nil {
		return err
	}
	check := s.checkTables
	if s.Dialect == Postgres {
		check = s.checkPostgres
	}
	findings, err := check(ctx, db, table)
	var unfenced *engine.Error
	if errors.As(err, &unfenced) { // its catalogs prove nothing
		findings, err = []string{unfenced.Engine + " is not known to fence: " + unfenced.Reason + " (" + engine.Page + ")"}, nil
	}
	if err != nil {
		return s.failed(ctx, db, err)
	}
	if len(findings) > 0 {
		return &CheckError{Findings: findings}
	}
	return nil
}

// older returns the finding that a database is older than this library. A version below 0
// is unknown.
func older(what string, version, newest int64) string {
	at := fmt.Sprintf("at version %d", version)
	if version < 0 {
		at = "older, without a function version()"
	}
	return fmt.Sprintf("%s is %s, and this program needs %d: apply the migrations, with fencepost migrate up "+
		"or whatever applied the others", what, at, newest)
}

// unitsTable is the table of Once on MySQL and SQLite.
const unitsTable = "fencepost_units"

// lost returns the finding that a table does not exist.
func lost(table string) string {
	effect := "stale tokens are admitted"
	if table == unitsTable {
		effect = "units of Once that are repeated are applied again"
	}
	return "table " + table + " is not there: restore it from a backup; a new table, from fencepost migrate print, is empty, so " + effect
}

// checkPostgres calls version() only if this role may: otherwise the driver's error would
// replace the findings.
func (s Set) checkPostgres(ctx context.Context, db *sql.DB, table versions) ([]string, error) {
	name := table.schema
	if err := s.probePostgres(ctx, db); err != nil {
		return nil, err
	}
	var there, usable, versioned, callable, readable bool
	var role string
	row := db.QueryRowContext(ctx, name.put(checkSchemaSQL))
	if err := row.Scan(&there, &usable, &versioned, &callable, &readable, &role); err != nil {
		return nil, err
	}
	what := "schema " + name.ident()
	switch {
	case !there:
		return []string{what + " is not there: apply the migrations, with fencepost migrate up"}, nil
	case !usable:
		return []string{fmt.Sprintf("role %s may not use %s: GRANT USAGE ON SCHEMA %s TO %s", role, what, name.ident(), role)}, nil
	}
	says := ""
	switch {
	case versioned && callable:
		says = "SELECT " + name.ident() + ".version()"
	case !versioned && readable: // the last file is not applied, or was reverted first
		says = "SELECT coalesce(max(version_id), 0) FROM " + name.ident() + "." + versionTable + " WHERE is_applied"
	}
	version, newest := int64(-1), s.newest()
	if says != "" {
		if err := db.QueryRowContext(ctx, says).Scan(&version); err != nil {
			return nil, err
		}
	}
	complete := version >= newest || versioned && !callable
	query := checkPostgresSQL
	if version == newest { // not if the database is newer than the program
		query = strings.Replace(query, "'{}'", "'"+name.bodies()+"'", 1)
	}
	findings, err := findingsOf(ctx, db, name.put(query), complete)
	if !complete {
		findings = append([]string{older(what, version, newest)}, findings...)
	}
	return findings, err
}

// createFunction matches each function of the migrations: its name and its body.
var createFunction = regexp.MustCompile(`(?s)CREATE (?:OR REPLACE )?FUNCTION "fencepost"\.(\w+)\(.*?AS \$fencepost\$(.*?)\$fencepost\$`)

// bodies returns the SHA-256 of each function's body in the schema, as a JSON object. The
// last file that has a function decides.
func (s schema) bodies() string {
	sums := map[string]string{}
	for _, name := range (Set{}).files() {
		text, _ := folders.ReadFile("postgres/" + name) // it is embedded
		for _, made := range createFunction.FindAllStringSubmatch(string(text), -1) {
			sums[made[1]] = fmt.Sprintf("%x", sha256.Sum256([]byte(s.put(made[2]))))
		}
	}
	object, _ := json.Marshal(sums) // strings only
	return string(object)
}

// findingsOf omits missing objects if the schema is not complete: its version explains
// them.
func findingsOf(ctx context.Context, db *sql.DB, query string, complete bool) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var findings []string
	for rows.Next() {
		var missing bool
		var finding string
		if err := rows.Scan(&missing, &finding); err != nil {
			return nil, err
		}
		if complete || !missing {
			findings = append(findings, finding)
		}
	}
	return findings, rows.Err()
}

// checkTables is Check for MySQL and SQLite.
func (s Set) checkTables(ctx context.Context, db *sql.DB, table versions) ([]string, error) {
	names := []string{"fencepost_marks", "fencepost_floor", unitsTable}
	if s.Dialect == MySQL {
		if err := s.probeMySQL(ctx, db); err != nil {
			return nil, err
		}
		// First, because information_schema hides tables on which the account has no right.
		if findings, err := mysqlDenied(ctx, db); err != nil || len(findings) > 0 {
			return findings, err
		}
		if engine.MySQLDenied(explain(ctx, db, "EXPLAIN SELECT result FROM "+unitsTable)) {
			names = names[:2] // only a program that calls Once needs the units
		}
	}
	findings, err := s.behind(ctx, db)
	if err != nil || len(findings) > 0 {
		return findings, err
	}
	for _, name := range names {
		exists, err := table.beside(ctx, db, name)
		if err != nil {
			return nil, err
		}
		if !exists {
			findings = append(findings, lost(name))
		}
	}
	if s.Dialect == MySQL {
		unsafe, err := findingsOf(ctx, db, withoutTransactionsSQL, true)
		if err != nil {
			return nil, err
		}
		findings = append(findings, unsafe...)
	}
	return findings, nil
}

const withoutTransactionsSQL = `
SELECT false, CONCAT('table ', table_name, ' has no transactions, so stale tokens are admitted: ALTER TABLE ', table_name, ' ENGINE = InnoDB')
  FROM information_schema.tables
 WHERE table_schema = DATABASE() AND table_name IN ('fencepost_marks', 'fencepost_floor', 'fencepost_units')
   AND coalesce(engine, '') <> 'InnoDB'`

// mysqlDenied is the finding that the account lacks rights that a guard needs. EXPLAIN of a
// statement needs the statement's rights, and takes no locks.
func mysqlDenied(ctx context.Context, db *sql.DB) ([]string, error) {
	for _, statement := range []string{
		"EXPLAIN INSERT INTO fencepost_marks (resource, number, holder) VALUES ('', 1, '') ON DUPLICATE KEY UPDATE number = number",
		"EXPLAIN SELECT number, holder FROM fencepost_marks WHERE resource = ''",
		"EXPLAIN SELECT number FROM fencepost_floor",
	} {
		if !engine.MySQLDenied(explain(ctx, db, statement)) { // without the tables, behind has the finding
			continue
		}
		grants, err := engine.MySQLGrants(ctx, db, engine.MySQLRights...)
		if err != nil {
			return nil, err
		}
		return []string{"this account lacks rights on fencepost_marks or fencepost_floor: " + grants}, nil
	}
	return nil, nil
}

// explain runs an EXPLAIN and drops its rows.
func explain(ctx context.Context, db *sql.DB, statement string) error {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() { // nothing is read
	}
	return rows.Err()
}

// behind returns the finding that the version table lacks a version of the set. It
// returns none if the table has them all, or if the marks exist without a version table.
func (s Set) behind(ctx context.Context, db *sql.DB) ([]string, error) {
	status, err := s.Status(ctx, db)
	if errors.Is(err, ErrUnversioned) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var version int64
	for _, m := range status {
		if m.AppliedAt.IsZero() {
			return []string{older("the database", version, s.newest())}, nil
		}
		version = m.Version
	}
	return nil, nil
}
