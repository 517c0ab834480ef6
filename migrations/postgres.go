package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fencepost/fencepost/internal/engine"
)

func (s Set) upPostgres(ctx context.Context, db *sql.DB, name schema, table versions, p *goose.Provider) error {
	if err := s.probePostgres(ctx, db); err != nil {
		return err
	}
	if err := preparePostgres(ctx, db, name, table); err != nil {
		return err
	}
	_, err := p.Up(ctx)
	return err
}

// probePostgres returns an *engine.Error for an engine that is not known to fence.
func (s Set) probePostgres(ctx context.Context, db *sql.DB) error {
	if s.DangerouslyTrustEngine {
		return nil
	}
	var version, extensions string
	if err := db.QueryRowContext(ctx, engine.PostgresQuery).Scan(&version, &extensions); err != nil {
		return err
	}
	return engine.CheckPostgres(version, extensions)
}

// preparePostgres creates the schema and the version table. Goose would create the table
// without its lock, and needs the schema to exist.
func preparePostgres(ctx context.Context, db *sql.DB, name schema, table versions) error {
	tx, err := name.beginLocked(ctx, db)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := makeSchema(ctx, tx, name); err != nil {
		return err
	}
	if exists, err := table.kept(ctx, tx, Postgres); err != nil || exists {
		return err
	}
	if err := table.create(ctx, tx); err != nil {
		return fmt.Errorf("table %s: %w", table.Tablename(), err)
	}
	// Goose's now() would be in the session's time zone, which the column does
	// not store.
	if _, err := tx.ExecContext(ctx, "ALTER TABLE "+table.Tablename()+
		" ALTER COLUMN tstamp SET DEFAULT (pg_catalog.now() AT TIME ZONE 'UTC')"); err != nil {
		return err
	}
	return tx.Commit()
}

// beginLocked begins a transaction that has the lock of the schema until its end. It does
// not use the connection's default isolation, whose snapshot may be fixed: a snapshot
// from before the wait would not show what the previous process created.
func (s schema) beginLocked(ctx context.Context, db *sql.DB) (*sql.Tx, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.pg_advisory_xact_lock("+lockKey+")", string(s)); err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return tx, nil
}

func makeSchema(ctx context.Context, tx *sql.Tx, name schema) error {
	var exists bool
	row := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", string(name))
	if err := row.Scan(&exists); err != nil || exists {
		return err
	}
	if _, err := tx.ExecContext(ctx, "CREATE SCHEMA "+name.ident()); err != nil {
		return fmt.Errorf("schema %s does not exist, and this role may not create it: %w", name.ident(), err)
	}
	return nil
}

// unprotected returns an error if tables are protected. The migration checks that too,
// but after the newer migrations were reverted.
func unprotected(ctx context.Context, db *sql.DB, name schema, table versions) error {
	// Without the lock another Down could drop protected() between the two queries.
	tx, err := name.beginLocked(ctx, db)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if exists, err := table.kept(ctx, tx, Postgres); err != nil || !exists {
		return err
	}
	var callable bool
	row := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "+
		"WHERE n.nspname = $1 AND p.proname = 'protected' AND p.pronargs = 0)", string(name))
	if err := row.Scan(&callable); err != nil || !callable {
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

// lockKey is made as the keys of resources are, and equal to none of them: theirs
// have a slash.
const lockKey = "pg_catalog.hashtextextended($1, 9651)"

// schemaLock locks a schema while goose works in it.
type schemaLock struct{ schema }

var _ lock.SessionLocker = schemaLock{}

// SessionLock waits in the server, so that the next process starts at once.
// Goose's own locker polls every five seconds.
func (s schemaLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT pg_catalog.pg_advisory_lock("+lockKey+")", string(s.schema))
	return discardOn(conn, err)
}

// SessionUnlock releases the lock.
func (s schemaLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var held bool
	err := conn.QueryRowContext(ctx, "SELECT pg_catalog.pg_advisory_unlock("+lockKey+")", string(s.schema)).Scan(&held)
	if err == nil && !held {
		err = errors.New("the lock was lost while migrating: is there a pooler in transaction mode?")
	}
	return discardOn(conn, err)
}

// discardOn closes the connection if err is not nil: it may still have the lock,
// and the pool would reuse it.
func discardOn(conn *sql.Conn, err error) error {
	if err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}
