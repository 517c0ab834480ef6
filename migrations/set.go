package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing/fstest"
	"time"

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
	files := fstest.MapFS{}
	for _, file := range s.files() {
		text, err := folders.ReadFile(s.Dialect.String() + "/" + file)
		if err != nil {
			return nil, fmt.Errorf("migrations: %w", err)
		}
		files[file] = &fstest.MapFile{Data: []byte(name.put(string(text)))}
	}
	return files, nil
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
	var script strings.Builder
	for _, name := range s.files() {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return "", fmt.Errorf("migrations: %w", err)
		}
		up, _, _ := strings.Cut(string(text), "\n-- +goose Down")
		fmt.Fprintf(&script, "-- %s\n%s", name, annotation.ReplaceAllString(up+"\n", ""))
	}
	return script.String(), nil
}

// annotation matches a line of a goose file that is for goose.
var annotation = regexp.MustCompile(`(?m)^-- \+goose.*\n`)

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

// files returns the names of the set's files. Their versions are 1, 2, 3 and so on.
func (s Set) files() []string {
	var names []string
	entries, _ := folders.ReadDir(s.Dialect.String()) // it is embedded
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// newest returns the version of a complete database.
func (s Set) newest() int64 { return int64(len(s.files())) }

// failed wraps err, an error of the database, with the package's name. ErrUnversioned has
// it already. If the database is of another dialect than the set, the error's text contains
// that.
func (s Set) failed(ctx context.Context, db *sql.DB, err error) error {
	var locked *LockedError
	switch {
	case err == nil || errors.Is(err, ErrUnversioned):
		return err
	case errors.As(err, &locked):
		err = locked // without goose's "connection is already closed"
	case errors.Is(err, engine.ErrUnfenced) || errors.Is(err, errBusy): // a busy pooler does not answer Mismatch
	default:
		if other := engine.Mismatch(ctx, db, err, s.Dialect); other != "" {
			return fmt.Errorf("migrations: Set.Dialect is %s, and the database seems to be %s: %w", s.Dialect, other, err)
		}
	}
	return fmt.Errorf("migrations: %s: %w", s.Dialect, err)
}
