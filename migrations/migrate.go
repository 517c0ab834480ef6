package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Up applies the migrations that db lacks, each in a transaction of its own. It returns
// nil if db has them all, and possibly newer ones that this library does not have. Any
// number of processes may call it at once: one applies, the others wait until it is done.
// If another one is not done within [Set.WaitTimeout], or until ctx ends, Up returns a
// [*LockedError]. If ctx ends or a migration fails, the earlier migrations stay applied, and
// the next Up continues after them.
//
// The lock belongs to a session, so Up returns an error behind a pooler of PostgreSQL in
// transaction mode. To see that, it needs two connections: it does not see it if db, a pool
// below db, or the server has only one for it.
//
// On PostgreSQL, Up creates the schema if it does not exist, owned by the role of db. It
// returns [ErrUnversioned] if the tables exist and Up did not create them, and
// [github.com/fencepost/fencepost/guard.ErrUnfenced] if the engine is not known to fence:
// see [Set.DangerouslyTrustEngine]. In both cases it changes nothing. Errors of the
// driver and of goose are wrapped.
func (s Set) Up(ctx context.Context, db *sql.DB) error {
	return s.migrate(ctx, db, func(table versions, p *goose.Provider) error {
		var err error
		switch s.Dialect {
		case MySQL:
			err = s.prepareMySQL(ctx, db, table)
		case SQLite:
			err = prepareSQLite(ctx, db, table)
		default:
			err = s.preparePostgres(ctx, db, table)
		}
		if err == nil {
			_, err = p.Up(ctx)
		}
		return err
	})
}

// Down reverts what [Set.Up] has applied, the newest migration first, each in a
// transaction of its own, and returns nil when nothing is left. All marks are deleted:
// after the next Up, tokens that were refused before are admitted. Stop all writers of
// fenced data first.
//
// The schema stays, because an administrator set its rights. The version table stays,
// without versions, because a waiting Up may have found it already. Concurrent Ups and
// Downs wait for each other, except on SQLite, which has no lock for that: there Down
// must run alone. The marks are deleted last. If ctx ends, or an object outside the set
// depends on a function, the marks still exist, and the next Down or Up continues.
//
// Down returns [ErrUnversioned] if Up did not create the tables. It returns other errors
// if a newer library has migrated the database (with the version) and if tables are still
// protected (with their names), and the errors of Up for its lock. In these cases it changes
// nothing.
func (s Set) Down(ctx context.Context, db *sql.DB) error {
	return s.migrate(ctx, db, func(table versions, p *goose.Provider) error {
		if s.Dialect == Postgres {
			if err := s.unprotected(ctx, db, table); err != nil {
				return err
			}
		}
		exists, err := table.kept(ctx, db)
		if err != nil || !exists {
			return err
		}
		if _, err = p.DownTo(ctx, 0); errors.Is(err, goose.ErrVersionNotFound) {
			return s.newer(ctx, db, err)
		}
		return err
	})
}

// LockedError is returned by [Set.Up] and [Set.Down] if another Up or Down has not released the
// lock within [Set.WaitTimeout], or until ctx has ended. This call has changed no table of marks.
type LockedError struct {
	// Holder describes the session that has the lock, as far as the role may see it: on
	// PostgreSQL its process, application_name, role and address, and since when it is
	// connected and in its state; on MySQL its connection and account.
	Holder string
	// Err is how the wait ended.
	Err error
}

// Error returns both fields.
func (e *LockedError) Error() string {
	return fmt.Sprintf("another up or down has the lock: %s: %v", e.Holder, e.Err)
}

// Unwrap returns Err.
func (e *LockedError) Unwrap() error { return e.Err }

// errNotGranted ends the wait for the lock on MySQL.
var errNotGranted = errors.New("not granted")

// lockedBy returns a [LockedError] if query, of one row, finds the holder of the lock, or if
// err is the end of the wait, after which the holder may have released it. Otherwise it returns
// err. The caller has no connection: the pool may have only one.
func lockedBy(ctx context.Context, db *sql.DB, err error, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var holder string
	failed := db.QueryRowContext(ctx, query, args...).Scan(&holder)
	if failed == sql.ErrNoRows && (errors.Is(err, errNotGranted) || sqlState(err) == "55P03") {
		holder = "a session that has released it since"
	} else if failed != nil {
		return err
	}
	return &LockedError{holder, err}
}

// newer adds the versions of database and library to goose's "version not found".
func (s Set) newer(ctx context.Context, db *sql.DB, err error) error {
	status, failed := s.Status(ctx, db)
	if failed != nil || len(status) == 0 {
		return err
	}
	known, newest := s.newest(), status[len(status)-1].Version
	return fmt.Errorf("the database is at version %d, newer than this program's %d: use a newer program (%w)", newest, known, err)
}

// migrate runs work with a goose provider that has the lock of the dialect, and shares no state
// with the program's own goose.
func (s Set) migrate(ctx context.Context, db *sql.DB, work func(versions, *goose.Provider) error) error {
	table, err := s.versions()
	if err != nil {
		return err
	}
	files, err := s.FS()
	if err != nil {
		return err
	}
	var locker lock.SessionLocker = rollbackAfter{}
	switch s.Dialect {
	case Postgres:
		locker = s.schemaLock(db, table)
	case MySQL:
		locker = s.databaseLock(db)
	}
	p, err := goose.NewProvider("", db, files, goose.WithStore(table), goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	switch {
	case err != nil:
	case s.Dialect == SQLite:
		err = retryBusy(ctx, db, table, func() error { return work(table, p) })
	default:
		err = work(table, p)
	}
	return s.failed(ctx, db, err)
}
