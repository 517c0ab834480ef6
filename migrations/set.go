package migrations

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/fencepost/fencepost/internal/engine"
)

//go:embed postgres/*.sql mysql/*.sql sqlite/*.sql
var folders embed.FS

// Dialect is a kind of database. It is the same type as in package stdsql. Its String
// method returns a value of the command's flag --dialect, for example "postgres". The
// zero value is [Postgres].
type Dialect = engine.Dialect

const (
	// Postgres is PostgreSQL 13 or newer.
	Postgres = engine.Postgres
	// MySQL is MySQL 5.7 or newer and MariaDB 10.2 or newer. It was tested on MariaDB
	// 10.11 only.
	MySQL = engine.MySQL
	// SQLite is SQLite 3.8.2 or newer. Package stdsql, which writes to the tables, needs
	// 3.24.
	SQLite = engine.SQLite
)

// Set is the migrations of one dialect, and for PostgreSQL of one schema. The zero value
// is PostgreSQL with the schema "fencepost". A Set is a value: it may be copied, and is
// safe for concurrent use.
type Set struct {
	// Dialect is the kind of the database. The zero value is [Postgres].
	Dialect Dialect
	// Schema is the name of the PostgreSQL schema: 1 to 63 bytes without control
	// characters and slashes. It is quoted wherever it is used. For MySQL and SQLite,
	// which have no schemas, it must be empty (MySQL has databases, and the DSN names
	// one). Empty means "fencepost".
	Schema string
	// DangerouslyTrustEngine makes [Set.Up] and [Set.Check] skip the engine check. Set it
	// only if the engine is known to fence as PostgreSQL or MySQL does, or if all writers
	// of a cluster write to one node. False means that Up returns guard.ErrUnfenced for
	// an engine that is not known to fence, and that Check reports it.
	DangerouslyTrustEngine bool
	// WaitTimeout bounds how long [Set.Up] and [Set.Down] wait for another Up or Down. SQLite
	// has no lock for that. Zero means a minute.
	WaitTimeout time.Duration
}

func (s Set) waitTimeout() time.Duration { return cmp.Or(s.WaitTimeout, time.Minute) }

// FS returns the set's files for programs that run goose themselves. The name of the
// set's schema is filled in.
//
//	files, err := migrations.Set{}.FS()
//	store, err := database.NewStore(database.DialectPostgres, "fencepost_versions")
//	provider, err := goose.NewProvider("", db, files, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
//
// The store is a separate version table, beside the one of the program's migrations. With
// a store, goose requires an empty dialect. Without WithDisableGlobalRegistry, goose
// would add the program's registered Go migrations to the set.
func (s Set) FS() (fs.FS, error) {
	name, err := s.validate()
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(folders, s.Dialect.String())
	if err != nil || s.Dialect != Postgres {
		return files, err
	}
	return rewrite(files, name.put)
}

// SQL returns the Up halves of the set's files as one plain script without goose's
// annotations. It does not begin or commit a transaction: run it in one (psql
// --single-transaction). It creates no version table. It fails on a database that has the
// tables already, and [Set.Up] fails after it.
func (s Set) SQL() (string, error) {
	files, err := s.FS()
	if err != nil {
		return "", err
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", fmt.Errorf("migrations: %w", err)
	}
	var script strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("migrations: %w", err)
		}
		fmt.Fprintf(&script, "-- %s\n%s", name, upHalf(string(text)))
	}
	return script.String(), nil
}

// upHalf returns the Up half of a goose file.
func upHalf(text string) string {
	var half strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "-- +goose Down"):
			return half.String()
		case strings.HasPrefix(line, "-- +goose"):
		default:
			half.WriteString(line)
		}
	}
	return half.String()
}

// validate returns the set's schema, or an error if the set is invalid.
func (s Set) validate() (schema, error) {
	switch {
	case s.WaitTimeout < 0:
		return "", fmt.Errorf("migrations: WaitTimeout %s is negative", s.WaitTimeout)
	case s.Dialect < Postgres || s.Dialect > SQLite:
		return "", fmt.Errorf("migrations: unknown dialect %s", s.Dialect)
	case s.Dialect == MySQL && s.Schema != "":
		return "", errors.New("migrations: MySQL has databases, and the DSN names one: Schema must be empty")
	case s.Dialect == SQLite && s.Schema != "":
		return "", errors.New("migrations: SQLite has no schemas, Schema must be empty")
	}
	return newSchema(s.Schema)
}

// files returns the names of the set's files by version.
func (s Set) files() map[int64]string {
	files := map[int64]string{}
	names, _ := fs.Glob(folders, s.Dialect.String()+"/*.sql") // no error: the pattern is valid
	for _, name := range names {
		if version, err := goose.NumericComponent(name); err == nil {
			files[version] = name[len(s.Dialect.String())+1:]
		}
	}
	return files
}

// newest returns the version of a complete database.
func (s Set) newest() int64 { return slices.Max(slices.Collect(maps.Keys(s.files()))) }

// failed wraps err, an error of the database, with the package's name. ErrUnversioned has
// it already. If the database is of another dialect than the set, the error's text contains
// that.
func (s Set) failed(ctx context.Context, db *sql.DB, err error) error {
	if err == nil || errors.Is(err, ErrUnversioned) {
		return err
	}
	if errors.Is(err, engine.ErrUnfenced) || errors.Is(err, errBusy) { // a busy pooler does not answer Mismatch
		return fmt.Errorf("migrations: %s: %w", s.Dialect, err)
	}
	var locked *LockedError
	if errors.As(err, &locked) {
		return fmt.Errorf("migrations: %s: %w", s.Dialect, locked) // without goose's "connection is already closed"
	}
	if other := engine.Mismatch(ctx, db, err, s.Dialect); other != "" {
		return fmt.Errorf("migrations: Set.Dialect is %s, and the database seems to be %s: %w", s.Dialect, other, err)
	}
	return fmt.Errorf("migrations: %s: %w", s.Dialect, err)
}

// rewrite returns a copy of files, each changed by edit. It uses an uncompressed zip
// archive as a file system in memory.
func rewrite(files fs.FS, edit func(string) string) (fs.FS, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	archive := zip.NewWriter(&buf)
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		w, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return nil, fmt.Errorf("migrations: %s: %w", name, err)
		}
		if _, err := w.Write([]byte(edit(string(text)))); err != nil {
			return nil, fmt.Errorf("migrations: %s: %w", name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	return zip.NewReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
}
