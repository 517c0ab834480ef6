package migrations

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3"
)

// Up applies what is missing to a PostgreSQL database, in the schema
// "fencepost". It is [Set.Up] of the zero Set.
func Up(ctx context.Context, db *sql.DB) error { return Set{}.Up(ctx, db) }

// Up applies the migrations that db does not have yet, each in a transaction
// of its own, and returns nil when it has them all. Any number of processes
// may call it at once: one works, the others wait for it, for as long as ctx
// lets them. When ctx ends, or a migration fails, those before it stay
// applied, and the next Up goes on from there.
//
// On PostgreSQL it makes the schema too, if it is not there; the role of db
// will own it. Errors of the driver and of goose are wrapped.
func (s Set) Up(ctx context.Context, db *sql.DB) error {
	name, err := s.check()
	if err != nil {
		return err
	}
	table, err := newVersions(s.Dialect, name)
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if s.Dialect == SQLite {
		err = upSQLite(ctx, db, s, table)
	} else {
		err = upPostgres(ctx, db, s, name, table)
	}
	if err != nil {
		return fmt.Errorf("migrations: %s: %w", s.Dialect, err)
	}
	return nil
}

// provider returns a goose that shares nothing with the program's own.
func (s Set) provider(db *sql.DB, table versions, options ...goose.ProviderOption) (*goose.Provider, error) {
	files, err := s.FS()
	if err != nil {
		return nil, err
	}
	options = append(options, goose.WithStore(table), goose.WithDisableGlobalRegistry(true), goose.WithVerbose(false))
	return goose.NewProvider("", db, files, options...)
}
