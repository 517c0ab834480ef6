package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pressly/goose/v3/database"
)

// ErrUnversioned is returned if the tables exist and [Set.Up]'s version table does not:
// [Set.SQL] or the program's own goose created them. Apply later versions with the same
// tool. [Set.Check] reports whether the tables are complete.
var ErrUnversioned = errors.New("migrations: the tables exist, but were not applied by Up: use the tool that applied them (Check reports whether they are complete)")

// Migration is one file of a [Set] in one database.
type Migration struct {
	// Version is the file's number.
	Version int64
	// File is the name of the file, as in "00001_marks.sql". It is empty for a version
	// that this library does not have.
	File string
	// AppliedAt is the time on the server's clock, or zero if the file was not applied.
	AppliedAt time.Time
}

// Status returns the set's migrations, and those that a newer library has applied, the
// oldest first. It reads the version table and changes nothing. If nothing was applied,
// no table is needed. The role of db needs SELECT on that table (on PostgreSQL:
// fencepost_migrations, in the schema). The application's own role lacks that right: use
// [Set.Check] there. Status returns [ErrUnversioned] if Up did not create the tables.
func (s Set) Status(ctx context.Context, db *sql.DB) ([]Migration, error) {
	table, err := s.versions()
	if err != nil {
		return nil, err
	}
	applied, err := table.applied(ctx, db)
	if err != nil {
		return nil, s.failed(ctx, db, err)
	}
	var status []Migration
	for i, file := range s.files() {
		version := int64(i + 1)
		status = append(status, Migration{Version: version, File: file, AppliedAt: applied[version]})
		delete(applied, version)
	}
	delete(applied, 0) // goose's own
	for _, version := range slices.Sorted(maps.Keys(applied)) {
		status = append(status, Migration{Version: version, AppliedAt: applied[version]})
	}
	return status, nil
}

// versions is goose's table of applied migrations, under another name than the program's
// goose_db_version.
type versions struct {
	database.Store

	dialect Dialect
	schema  schema
}

var _ database.StoreExtender = versions{}

const versionTable = "fencepost_migrations"

// versions returns the set's version table, or an error if the set is invalid.
func (s Set) versions() (versions, error) {
	name, err := s.validate()
	if err != nil {
		return versions{}, err
	}
	kind, table := database.DialectPostgres, name.ident()+"."+versionTable
	switch s.Dialect {
	case MySQL:
		kind, table = database.DialectMySQL, versionTable
	case SQLite:
		kind, table = database.DialectSQLite3, versionTable
	}
	store, err := database.NewStore(kind, table)
	if err != nil {
		return versions{}, fmt.Errorf("migrations: %w", err)
	}
	return versions{store, s.Dialect, name}, nil
}

// TableExists replaces goose's own method, which does not find a quoted name.
func (v versions) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	return v.beside(ctx, db, versionTable)
}

// beside reports whether the table called name exists where the version table has its place.
func (v versions) beside(ctx context.Context, db database.DBTxConn, name string) (exists bool, err error) {
	query, args := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", []any{name}
	switch v.dialect {
	case Postgres:
		query = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE tablename = $1 AND schemaname = $2)"
		args = append(args, string(v.schema))
	case MySQL:
		query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
	}
	err = db.QueryRowContext(ctx, query, args...).Scan(&exists)
	return exists, err
}

// create creates the table as goose would.
func (v versions) create(ctx context.Context, db database.DBTxConn) error {
	if err := v.CreateVersionTable(ctx, db); err != nil {
		return err
	}
	return v.Insert(ctx, db, database.InsertRequest{Version: 0})
}

// applied returns the time at which each version was applied. Goose's own method
// would create the table.
func (v versions) applied(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	exists, err := v.kept(ctx, db)
	if err != nil || !exists {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id, "+v.appliedAt()+" FROM "+v.Tablename()+" ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("versions in %s: %w", v.Tablename(), err)
	}
	defer rows.Close()
	applied := map[int64]time.Time{}
	for rows.Next() {
		var version, at int64
		if err := rows.Scan(&version, &at); err != nil {
			return nil, fmt.Errorf("versions in %s: %w", v.Tablename(), err)
		}
		applied[version] = time.Unix(at, 0).UTC()
	}
	return applied, rows.Err()
}

// kept reports whether the version table exists. It returns ErrUnversioned if the marks
// exist without it. It tests the marks first, because a concurrent Up creates the version
// table first.
func (v versions) kept(ctx context.Context, db database.DBTxConn) (bool, error) {
	marks := "fencepost_marks"
	if v.dialect == Postgres {
		marks = "marks"
	}
	made, err := v.beside(ctx, db, marks)
	if err != nil {
		return false, err
	}
	exists, err := v.TableExists(ctx, db)
	if err == nil && made && !exists {
		err = ErrUnversioned
	}
	return exists, err
}

// appliedAt returns the SQL expression for the time at which a version was applied, in
// seconds since 1970. A timestamp would have another type in each driver, and be in the
// session's time zone on MySQL.
func (v versions) appliedAt() string {
	switch v.dialect {
	case MySQL:
		return "UNIX_TIMESTAMP(tstamp)"
	case SQLite:
		return "CAST(strftime('%s', tstamp) AS INTEGER)"
	default:
		return "floor(extract(epoch FROM tstamp))::bigint"
	}
}
