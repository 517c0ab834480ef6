package migrations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/engine"
)

// probeMySQL returns an *engine.Error for an engine that is not known to fence.
func (s Set) probeMySQL(ctx context.Context, db *sql.DB) error {
	if s.DangerouslyTrustEngine {
		return nil
	}
	vars, err := engine.AskMySQL(ctx, db)
	if err != nil {
		return err
	}
	return engine.CheckMySQL(vars)
}

// prepareMySQL creates the version table under the lock, if the engine is known to fence. CREATE
// TABLE commits, so an interrupted process may leave a table without goose's version 0.
func (s Set) prepareMySQL(ctx context.Context, db *sql.DB, table versions) (err error) {
	if err := s.probeMySQL(ctx, db); err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	alone := s.databaseLock(db)
	if err := alone.SessionLock(ctx, conn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	exists, err := table.kept(ctx, conn)
	if err != nil {
		return err
	}
	if !exists {
		return table.create(ctx, conn)
	}
	_, err = conn.ExecContext(ctx, "INSERT INTO "+table.Tablename()+" (version_id, is_applied) "+
		"SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM "+table.Tablename()+")")
	return err
}

// databaseLock locks the session's database, with a named lock of the server, while goose
// works in it.
type databaseLock struct {
	db   *sql.DB
	wait time.Duration
}

func (s Set) databaseLock(db *sql.DB) databaseLock { return databaseLock{db, s.waitTimeout()} }

// Named locks are global to the server, and a name has at most 64 characters.
const lockName = "CONCAT('fencepost/', LEFT(SHA2(DATABASE(), 256), 40))"

// SessionLock waits in the server. If ctx ends, the driver closes the connection, which ends
// the wait.
func (l databaseLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var held sql.NullBool
	err := conn.QueryRowContext(ctx, fmt.Sprintf("SELECT GET_LOCK("+lockName+", %f)", l.wait.Seconds())).Scan(&held)
	switch {
	case err == nil && !held.Valid:
		err = errors.New("the lock was not granted: does the DSN name a database?")
	case err == nil && !held.Bool:
		err = fmt.Errorf("%w within %s", errNotGranted, l.wait)
	}
	if err = discardOn(conn, err); err == nil {
		return nil
	}
	return lockedBy(ctx, l.db, err, "SELECT CONCAT_WS(', ', CONCAT('connection ', l.id), CONCAT('account ', p.user, ' from ', p.host), "+
		"CONCAT(LOWER(p.command), ' for ', p.time, ' s')) FROM (SELECT IS_USED_LOCK("+lockName+") AS id) l "+
		"LEFT JOIN information_schema.processlist p ON p.id = l.id WHERE l.id IS NOT NULL")
}

// SessionUnlock releases the lock.
func (databaseLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var held sql.NullBool
	err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK("+lockName+")").Scan(&held)
	if err == nil && !held.Bool {
		err = errors.New("the lock was lost while migrating: is there a pooler in transaction mode?")
	}
	return discardOn(conn, err)
}
