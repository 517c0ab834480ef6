package migrations

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

func upSQLite(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) error {
	return retryBusy(ctx, db, table, p, func() error {
		exists, err := table.kept(ctx, db, SQLite)
		if err == nil && !exists {
			err = immediately(ctx, db, table)
		}
		if err == nil {
			_, err = p.Up(ctx)
		}
		return err
	})
}

func downSQLite(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) error {
	return retryBusy(ctx, db, table, p, func() error {
		exists, err := table.kept(ctx, db, SQLite)
		if err == nil && exists {
			_, err = p.DownTo(ctx, 0)
		}
		return err
	})
}

// immediately creates the version table in a transaction that takes the write lock first:
// two transactions that both read first would block each other.
func immediately(ctx context.Context, db *sql.DB, table versions) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err = table.create(ctx, conn)
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
func retryBusy(ctx context.Context, db *sql.DB, table versions, p *goose.Provider, work func() error) error {
	for {
		before, err := reached(ctx, db, table, p)
		if err == nil {
			err = work()
		}
		if err == nil || errors.Is(err, ErrUnversioned) || !busy(err) && !moved(ctx, db, table, p, before) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
		}
	}
}

// reached returns the newest applied version. Goose's own method would create the version
// table first.
func reached(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) (int64, error) {
	exists, err := table.kept(ctx, db, SQLite)
	if err != nil || !exists {
		return 0, err
	}
	return p.GetDBVersion(ctx)
}

// moved reports whether the version differs from before, or another connection is about
// to change it.
func moved(ctx context.Context, db *sql.DB, table versions, p *goose.Provider, before int64) bool {
	after, err := reached(ctx, db, table, p)
	if err != nil {
		return busy(err)
	}
	return after != before
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

var _ lock.SessionLocker = rollbackAfter{}

// SessionLock does nothing: SQLite has no such lock.
func (rollbackAfter) SessionLock(context.Context, *sql.Conn) error { return nil }

// SessionUnlock runs after goose's work, on its connection.
func (rollbackAfter) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, _ = conn.ExecContext(ctx, "ROLLBACK") // an error is normal: no transaction is open
	return nil
}
