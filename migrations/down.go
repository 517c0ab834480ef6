package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
)

// Down forgets all marks in the schema "fencepost" of a PostgreSQL database.
// It is [Set.Down] of the zero Set.
func Down(ctx context.Context, db *sql.DB) error { return Set{}.Down(ctx, db) }

// Down takes back what [Set.Up] has applied, the newest migration first, each
// in a transaction of its own, and returns nil when nothing is left. It
// forgets all marks: what was refused before would be admitted again. Stop
// everybody who writes what is fenced.
//
// The schema stays, since its rights are the administrator's work, and so does
// the version table, which says "nothing" then: an Up that waits for us has
// looked for it already. Beside other Ups and Downs it works as Up does; on
// SQLite, which has no lock for it, it must run alone. The marks go last: when
// ctx ends, or something that is not ours still uses a function, they are
// there, and the next Down or Up goes on from where it stopped.
//
// Where somebody else has made the tables, the error is [ErrUnversioned];
// where a newer library has migrated, it says which version; where tables are
// protected still, which ones. Nothing changes then.
func (s Set) Down(ctx context.Context, db *sql.DB) error {
	return s.migrate(db, func(name schema, table versions, p *goose.Provider) error {
		var err error
		switch s.Dialect {
		case SQLite:
			err = downSQLite(ctx, db, table, p)
		case MySQL:
			err = downLocked(ctx, db, s.Dialect, table, p)
		default:
			if err = unprotected(ctx, db, name, table); err == nil {
				err = downLocked(ctx, db, s.Dialect, table, p)
			}
		}
		if errors.Is(err, goose.ErrVersionNotFound) {
			return s.newer(ctx, db, err)
		}
		return err
	})
}

// downLocked is for dialects with a lock, which p takes.
func downLocked(ctx context.Context, db *sql.DB, d Dialect, table versions, p *goose.Provider) error {
	exists, err := table.kept(ctx, db, d)
	if err != nil || !exists {
		return err
	}
	_, err = p.DownTo(ctx, 0)
	return err
}

// newer says in our words what goose's "version not found" means here.
func (s Set) newer(ctx context.Context, db *sql.DB, err error) error {
	status, failed := s.Status(ctx, db)
	if failed != nil || len(status) == 0 {
		return err
	}
	known, newest := s.newest(), status[len(status)-1].Version
	return fmt.Errorf("the database is at version %d, and this program knows %d: use the newer one (%w)", newest, known, err)
}

// unprotected is an error while tables are protected. The migration asks too,
// but has newer ones behind it, which would be gone by then.
func unprotected(ctx context.Context, db *sql.DB, name schema, table versions) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	// Without the lock another Down takes the function away between the two.
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.pg_advisory_xact_lock("+lockKey+")", string(name)); err != nil {
		return err
	}
	if exists, err := table.kept(ctx, tx, Postgres); err != nil || !exists {
		return err
	}
	var asks bool
	row := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "+
		"WHERE n.nspname = $1 AND p.proname = 'protected' AND p.pronargs = 0)", string(name))
	if err := row.Scan(&asks); err != nil || !asks {
		return err
	}
	var tables sql.NullString
	row = tx.QueryRowContext(ctx, "SELECT pg_catalog.string_agg(p.tab::pg_catalog.text, ', ') FROM "+name.ident()+".protected() p")
	if err := row.Scan(&tables); err != nil || !tables.Valid {
		return err
	}
	return fmt.Errorf("tables are still protected: %s: nothing was removed; stop the writers, then SELECT %s.unprotect(tab) FROM %s.protected()",
		tables.String, name.ident(), name.ident())
}
