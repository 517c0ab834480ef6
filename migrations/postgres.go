package migrations

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

func upPostgres(ctx context.Context, db *sql.DB, s Set, name schema, table versions) error {
	if err := prepare(ctx, db, name, table); err != nil {
		return err
	}
	p, err := s.provider(db, table, goose.WithSessionLocker(session{name}))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
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
	var exists bool
	row := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", string(name))
	if err := row.Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.ExecContext(ctx, "CREATE SCHEMA "+name.ident()); err != nil {
			return err
		}
	}
	if err := table.create(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
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
