package migrations

import (
	"context"
	"database/sql"
	"errors"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

func upMySQL(ctx context.Context, db *sql.DB, table versions, p *goose.Provider) error {
	if err := prepareMySQL(ctx, db, table); err != nil {
		return err
	}
	_, err := p.Up(ctx)
	return err
}

// prepareMySQL makes the version table under the lock. CREATE TABLE commits, so
// whoever was interrupted behind it has left a table without goose's version 0.
func prepareMySQL(ctx context.Context, db *sql.DB, table versions) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var alone ofDatabase
	if err := alone.SessionLock(ctx, conn); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alone.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	exists, err := table.kept(ctx, conn, MySQL)
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

// ofDatabase locks the session's database for as long as goose works in it, by one
// of the server's locks that have names.
type ofDatabase struct{}

var _ lock.SessionLocker = ofDatabase{}

// The name is one for all databases of the server, and 64 characters at most.
const lockName = "CONCAT('fencepost/', LEFT(SHA2(DATABASE(), 256), 40))"

// SessionLock waits in the server for a year, since MariaDB has no word for
// ever. Where ctx ends, the connection does, and its wait with it.
func (ofDatabase) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var held sql.NullBool
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+lockName+", 31536000)").Scan(&held)
	if err == nil && !held.Bool {
		err = errors.New("the lock was not given: does the DSN name a database?")
	}
	return keep(conn, err)
}

// SessionUnlock ends the lock.
func (ofDatabase) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var held sql.NullBool
	err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK("+lockName+")").Scan(&held)
	if err == nil && !held.Bool {
		err = errors.New("the lock was lost while migrating: is there a pooler in transaction mode?")
	}
	return keep(conn, err)
}
