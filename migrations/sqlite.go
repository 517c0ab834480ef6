package migrations

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"time"
)

// prepareSQLite creates the version table in a transaction that takes the write lock first:
// two transactions that both read first would block each other.
func prepareSQLite(ctx context.Context, db *sql.DB, table versions) error {
	if exists, err := table.kept(ctx, db); err != nil || exists {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	exists, err := table.TableExists(ctx, conn)
	if err == nil && !exists {
		err = table.create(ctx, conn)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

// retryBusy runs work until it succeeds, fails with an error that is no conflict, or ctx
// ends. SQLite has no lock that could be waited for: the loser of a race gets an error
// that the database is busy, or that a table exists already.
func retryBusy(ctx context.Context, db *sql.DB, table versions, work func() error) error {
	for {
		before, err := table.applied(ctx, db)
		if err == nil {
			err = work()
		}
		if err == nil || errors.Is(err, ErrUnversioned) || !busy(err) && !moved(ctx, db, table, before) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
		}
	}
}

// moved reports whether other versions than before are applied, or another connection is
// about to change them.
func moved(ctx context.Context, db *sql.DB, table versions, before map[int64]time.Time) bool {
	after, err := table.applied(ctx, db)
	if err != nil {
		return busy(err)
	}
	return !maps.Equal(before, after)
}

// busy reports whether err is SQLITE_BUSY or SQLITE_LOCKED. The drivers' error
// types have only their texts in common.
func busy(err error) bool {
	return strings.Contains(err.Error(), "database is locked") ||
		strings.Contains(err.Error(), "database table is locked") ||
		strings.Contains(err.Error(), "database schema is locked")
}

// rollbackAfter ends a transaction that goose's COMMIT left open, as it does if SQLite is
// busy. database/sql considers that transaction over, and the next attempt on the
// connection would see its own uncommitted changes.
type rollbackAfter struct{}

// SessionLock does nothing: SQLite has no such lock.
func (rollbackAfter) SessionLock(context.Context, *sql.Conn) error { return nil }

// SessionUnlock runs after goose's work, on its connection.
func (rollbackAfter) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, _ = conn.ExecContext(ctx, "ROLLBACK") // an error is normal: no transaction is open
	return nil
}
