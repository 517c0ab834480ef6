package migrations

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
)

// upSQLite tries until it is done. SQLite has no lock to wait for: whoever
// loses a race hears that the database is busy, or that what it wanted to
// make is there already.
func upSQLite(ctx context.Context, db *sql.DB, s Set, table versions) error {
	p, err := s.provider(db, table)
	if err != nil {
		return err
	}
	for {
		before, err := reached(ctx, db, table, p)
		if err == nil {
			_, err = p.Up(ctx)
		}
		if err == nil || !busy(err) && !moved(ctx, p, before) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
		}
	}
}

// reached makes the version table if need be, and returns the last version.
func reached(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) (int64, error) {
	exists, err := table.TableExists(ctx, db)
	if err == nil && !exists {
		err = immediately(ctx, db, table)
	}
	if err != nil {
		return 0, err
	}
	return p.GetDBVersion(ctx)
}

// immediately makes the version table in a transaction that takes the lock at
// once: two that had read first could both only give up.
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

// moved tells whether somebody else has applied a migration meanwhile, or is
// about to.
func moved(ctx context.Context, p *goose.Provider, before int64) bool {
	after, err := p.GetDBVersion(ctx)
	if err != nil {
		return busy(err)
	}
	return after > before
}

// busy tells whether err is SQLITE_BUSY or SQLITE_LOCKED. The drivers' error
// types have only their texts in common.
func busy(err error) bool {
	return strings.Contains(err.Error(), "database is locked") ||
		strings.Contains(err.Error(), "database table is locked") ||
		strings.Contains(err.Error(), "database schema is locked")
}
