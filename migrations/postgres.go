package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

func upPostgres(ctx context.Context, db *sql.DB, name schema, table versions, p *goose.Provider) error {
	if err := prepare(ctx, db, name, table); err != nil {
		return err
	}
	_, err := p.Up(ctx)
	return err
}

// prepare makes the schema and the version table. Goose would make the table
// without its lock, in a schema that it expects to find.
func prepare(ctx context.Context, db *sql.DB, name schema, table versions) error {
	// Under a fixed snapshot, taken before the wait, the winner's work would
	// not be seen; the connection's default may be one.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "SELECT pg_catalog.pg_advisory_xact_lock("+lockKey+")", string(name)); err != nil {
		return err
	}
	if err := makeSchema(ctx, tx, name); err != nil {
		return err
	}
	if exists, err := table.kept(ctx, tx, Postgres); err != nil || exists {
		return err
	}
	if err := table.create(ctx, tx); err != nil {
		return fmt.Errorf("table %s: %w", table.Tablename(), err)
	}
	// Goose's now() would be in the time zone of whoever migrates, which the
	// table does not keep.
	if _, err := tx.ExecContext(ctx, "ALTER TABLE "+table.Tablename()+
		" ALTER COLUMN tstamp SET DEFAULT (pg_catalog.now() AT TIME ZONE 'UTC')"); err != nil {
		return err
	}
	return tx.Commit()
}

func makeSchema(ctx context.Context, tx *sql.Tx, name schema) error {
	var exists bool
	row := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", string(name))
	if err := row.Scan(&exists); err != nil || exists {
		return err
	}
	if _, err := tx.ExecContext(ctx, "CREATE SCHEMA "+name.ident()); err != nil {
		return fmt.Errorf("schema %s is not there, and this role cannot make it: %w", name.ident(), err)
	}
	return nil
}

// lockKey is of the family of the resources' keys, but none of them: theirs
// have a slash.
const lockKey = "pg_catalog.hashtextextended($1, 9651)"

// session locks a schema for as long as goose works in it.
type session struct{ schema }

var _ lock.SessionLocker = session{}

// SessionLock waits in the server, so that whoever comes next starts at once;
// goose's own locker asks every five seconds.
func (s session) SessionLock(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "SELECT pg_catalog.pg_advisory_lock("+lockKey+")", string(s.schema))
	return keep(conn, err)
}

// SessionUnlock ends the lock.
func (s session) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var held bool
	err := conn.QueryRowContext(ctx, "SELECT pg_catalog.pg_advisory_unlock("+lockKey+")", string(s.schema)).Scan(&held)
	if err == nil && !held {
		err = errors.New("the lock was lost while migrating: is there a pooler in transaction mode?")
	}
	return keep(conn, err)
}

// keep destroys the connection if err says that it may have the lock still:
// the pool would lend it out, lock and all.
func keep(conn *sql.Conn, err error) error {
	if err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}
