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

// untilAlone tries until it is done. SQLite has no lock to wait for: whoever
// loses a race hears that the database is busy, or that what it wanted to
// make is there already.
func untilAlone(ctx context.Context, db *sql.DB, table versions, p *goose.Provider, work func() error) error {
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

// reached returns the last version; goose would make the version table first.
func reached(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) (int64, error) {
	exists, err := table.kept(ctx, db, SQLite)
	if err != nil || !exists {
		return 0, err
	}
	return p.GetDBVersion(ctx)
}

// moved tells whether the version has changed meanwhile, through somebody else
// or ourselves, or is about to.
func moved(ctx context.Context, db *sql.DB, table versions, p *goose.Provider, before int64) bool {
	after, err := reached(ctx, db, table, p)
	if err != nil {
		return busy(err)
	}
	return after != before
}

// busy tells whether err is SQLITE_BUSY or SQLITE_LOCKED. The drivers' error
// types have only their texts in common.
func busy(err error) bool {
	return strings.Contains(err.Error(), "database is locked") ||
		strings.Contains(err.Error(), "database table is locked") ||
		strings.Contains(err.Error(), "database schema is locked")
}

// tidy takes back what goose's COMMIT could not end: SQLite leaves the
// transaction open where it finds the database busy, package sql takes it for
// over, and the next try on that connection would see its own work as done.
type tidy struct{}

var _ lock.SessionLocker = tidy{}

// SessionLock does nothing: SQLite has no such lock.
func (tidy) SessionLock(context.Context, *sql.Conn) error { return nil }

// SessionUnlock runs behind goose's work, on its connection.
func (tidy) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	_, _ = conn.ExecContext(ctx, "ROLLBACK") // an error where all is well: there is none
	return nil
}
