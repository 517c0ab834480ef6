package migrations

import (
	"archive/zip"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// FS holds the migrations as goose files, one folder for each [Dialect], for
// people who run goose themselves:
//
//	sub, err := fs.Sub(migrations.FS, "postgres")
//	store, err := database.NewStore(database.DialectPostgres, "fencepost_versions")
//	provider, err := goose.NewProvider("", db, sub, goose.WithStore(store), goose.WithDisableGlobalRegistry(true))
//
// The store is a version table of their own, apart from your migrations'; with
// one, goose wants its dialect empty. Without WithDisableGlobalRegistry goose
// takes the Go migrations that your program has registered for some of ours.
// [Set.FS] is the same for another schema.
//
//go:embed postgres/*.sql mysql/*.sql sqlite/*.sql
var FS embed.FS

// Set is the migrations of one dialect, and for PostgreSQL of one schema. The
// zero value is PostgreSQL with the schema "fencepost". A Set is a value:
// it may be copied, and used by many goroutines.
type Set struct {
	Dialect Dialect
	// Schema is the name of the PostgreSQL schema, any name of 1 to 63 bytes
	// without control characters and slashes; it is quoted wherever it is
	// used. Empty means "fencepost". The other dialects have no schemas (MySQL
	// has databases, and the DSN names one), and refuse one.
	Schema string
}

// FS returns the set's goose files, with the name of its schema put in.
func (s Set) FS() (fs.FS, error) {
	name, err := s.check()
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(FS, s.Dialect.String())
	if err != nil || s.Dialect != Postgres {
		return files, err
	}
	return rewrite(files, name.put)
}

func (s Set) check() (schema, error) {
	if err := s.Dialect.check(); err != nil {
		return "", err
	}
	switch {
	case s.Dialect == MySQL && s.Schema != "":
		return "", errors.New("migrations: MySQL has databases, and the DSN names one: Schema must be empty")
	case s.Dialect == SQLite && s.Schema != "":
		return "", errors.New("migrations: SQLite has no schemas, Schema must be empty")
	}
	return newSchema(s.Schema)
}

// rewrite returns a copy of files, each passed through edit. A zip archive is
// the standard library's file system in memory; nothing is compressed in it.
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
