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
// of its own, and returns nil when it has them all, and maybe newer ones that
// it does not know. Any number of processes may call it at once: one works,
// the others wait for it, for as long as ctx lets them. When ctx ends, or a
// migration fails, those before it stay applied, and the next Up goes on from
// there.
//
// On PostgreSQL it makes the schema too, if it is not there; the role of db
// will own it. Where somebody else has made the tables, the error is
// [ErrUnversioned] and nothing changes. Errors of the driver and of goose are
// wrapped.
func (s Set) Up(ctx context.Context, db *sql.DB) error {
	return s.migrate(db, func(name schema, table versions, p *goose.Provider) error {
		switch s.Dialect {
		case MySQL:
			return upMySQL(ctx, db, table, p)
		case SQLite:
			return upSQLite(ctx, db, table, p)
		default:
			return upPostgres(ctx, db, name, table, p)
		}
	})
}

// migrate does one piece of work with goose.
func (s Set) migrate(db *sql.DB, work func(schema, versions, *goose.Provider) error) error {
	name, table, err := s.parts()
	if err != nil {
		return err
	}
	p, err := s.provider(db, name, table)
	if err == nil {
		err = work(name, table, p)
	}
	if err != nil {
		return fmt.Errorf("migrations: %s: %w", s.Dialect, err)
	}
	return nil
}

func (s Set) parts() (schema, versions, error) {
	name, err := s.check()
	if err != nil {
		return "", versions{}, err
	}
	table, err := newVersions(s.Dialect, name)
	if err != nil {
		return "", versions{}, fmt.Errorf("migrations: %w", err)
	}
	return name, table, nil
}

// provider returns a goose that shares nothing with the program's own, and
// works alone where the dialect has a lock for that.
func (s Set) provider(db *sql.DB, name schema, table versions) (*goose.Provider, error) {
	files, err := s.FS()
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithStore(table), goose.WithDisableGlobalRegistry(true), goose.WithVerbose(false)}
	switch s.Dialect {
	case Postgres:
		options = append(options, goose.WithSessionLocker(session{name}))
	case MySQL:
		options = append(options, goose.WithSessionLocker(ofDatabase{}))
	case SQLite:
		options = append(options, goose.WithSessionLocker(tidy{}))
	}
	return goose.NewProvider("", db, files, options...)
}
