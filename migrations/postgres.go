package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/pgpooler"
)

// ownSession returns an error behind a pooler in transaction mode. There the lock of a session
// excludes nothing, because the pooler gives the session to another Up, and outlives a client
// that dies.
func (l schemaLock) ownSession(ctx context.Context) error {
	if l.db.Stats().MaxOpenConnections == 1 { // SessionUnlock may still find that the lock was lost
		return nil
	}
	one, err := l.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer one.Close()
	if _, err := processOf(one)(ctx); err != nil {
		return poolerError(err)
	}
	patient, cancel := context.WithTimeout(ctx, secondConnTimeout)
	defer cancel()
	other, err := l.db.Conn(patient)
	if err == nil {
		defer other.Close()
		_, err = processOf(other)(patient)
	}
	switch {
	case err != nil && patient.Err() != nil && ctx.Err() == nil:
		return keepsSession(ctx, one)
	case sqlState(err) == "53300": // the server's or the role's limit, and no pooler's
		return nil
	case err != nil:
		return poolerError(err)
	}
	shared, err := pgpooler.Shared(ctx, processOf(one), processOf(other))
	if shared {
		return errPooler
	}
	return poolerError(err)
}

// keepsSession returns an error if one, which has had an answer, gets none any more. A pooler
// in transaction mode serves any number of clients, but none while all its sessions are in
// use. In session mode, one still has its session.
func keepsSession(ctx context.Context, one *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, secondConnTimeout/5)
	defer cancel()
	if _, err := processOf(one)(ctx); err != nil {
		return errBusy
	}
	return nil
}

// secondConnTimeout bounds the wait for a second connection. A pooler in session mode that has
// one session never gives it, and neither does another pool of one connection below db.
const secondConnTimeout = 5 * time.Second

var errPooler = errors.New("there is a pooler in transaction mode, which breaks the lock that keeps migrations apart: " +
	"nothing was changed; use the server's own address, or a pool in session mode")

var errBusy = errors.New("the sessions of a pooler are all in use, so whether it shares them cannot be seen: " +
	"nothing was changed; use the server's own address")

func processOf(conn *sql.Conn) pgpooler.Client {
	return func(ctx context.Context) (process int64, err error) {
		err = conn.QueryRowContext(ctx, pgpooler.Process).Scan(&process)
		return process, err
	}
}

// poolerError returns what err says about a pooler. Two SQLSTATEs are those of a statement that
// the driver has prepared in one session, and the pooler sent to another.
func poolerError(err error) error {
	switch state := sqlState(err); {
	case err == nil:
		return nil
	case state == "26000" || state == "42P05":
		return errPooler
	}
	return fmt.Errorf("whether a pooler shares sessions: %w", err)
}

// sqlState returns the SQLSTATE of the server's error, or "".
func sqlState(err error) string {
	var server interface{ SQLState() string }
	if !errors.As(err, &server) {
		return ""
	}
	return server.SQLState()
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

// preparePostgres creates the schema and the version table, if the engine is known to fence and
// no pooler breaks the lock. Goose would create the table without its lock, and needs the schema.
func (s Set) preparePostgres(ctx context.Context, db *sql.DB, table versions) error {
	lock := s.schemaLock(db, table)
	err := s.probePostgres(ctx, db)
	if !errors.Is(err, engine.ErrUnfenced) {
		err = cmp.Or(lock.ownSession(ctx), err) // a pooler can be what the probe failed on
	}
	if err != nil {
		return err
	}
	tx, err := lock.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := makeSchema(ctx, tx, table.schema); err != nil {
		return err
	}
	if exists, err := table.kept(ctx, tx); err != nil || exists {
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

// unprotected returns an error if tables are protected, or if a pooler breaks the lock. The
// migration checks for protected tables too, but after the newer migrations were reverted.
func (s Set) unprotected(ctx context.Context, db *sql.DB, table versions) error {
	lock, name := s.schemaLock(db, table), table.schema
	if err := lock.ownSession(ctx); err != nil {
		return err
	}
	// Without the lock another Down could drop protected() between the two queries.
	tx, err := lock.begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if exists, err := table.kept(ctx, tx); err != nil || !exists {
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
type schemaLock struct {
	schema
	db   *sql.DB
	wait time.Duration
}

func (s Set) schemaLock(db *sql.DB, table versions) schemaLock {
	return schemaLock{table.schema, db, s.waitTimeout()}
}

// begin begins a transaction that has the lock of the schema until its end. It does not use
// the connection's default isolation, whose snapshot may be fixed: a snapshot from before the
// wait would not show what the previous process created.
func (l schemaLock) begin(ctx context.Context) (*sql.Tx, error) {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, err
	}
	if err := l.take(ctx, tx, "pg_advisory_xact_lock"); err != nil {
		_ = tx.Rollback()
		return nil, l.locked(ctx, err)
	}
	return tx, nil
}

// SessionLock waits in the server, so that the next process starts at once.
// Goose's own locker polls every five seconds.
func (l schemaLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err == nil {
		err = l.take(ctx, tx, "pg_advisory_lock")
		_ = tx.Rollback() // a session keeps its lock
	}
	if err = discardOn(conn, err); err != nil {
		return l.locked(ctx, err)
	}
	return nil
}

// take waits for the lock. A setting of the transaction bounds the wait, and no later one.
func (l schemaLock) take(ctx context.Context, tx *sql.Tx, function string) error {
	const set = "SELECT pg_catalog.current_setting('lock_timeout'), pg_catalog.set_config('lock_timeout', $1, true)"
	bound := fmt.Sprint(min(max(l.wait.Milliseconds(), 1), math.MaxInt32)) // 0 is without a bound
	var before, now string
	err := tx.QueryRowContext(ctx, set, bound).Scan(&before, &now)
	if err == nil {
		_, err = tx.ExecContext(ctx, "SELECT pg_catalog."+function+"("+lockKey+")", string(l.schema))
	}
	if err == nil {
		_, err = tx.ExecContext(ctx, set, before)
	}
	return err
}

// locked adds to err which session has the lock, if one has.
func (l schemaLock) locked(ctx context.Context, err error) error {
	return lockedBy(ctx, l.db, err, `SELECT pg_catalog.concat_ws(', ', 'process ' || l.pid, 'application_name "' || a.application_name || '"',
			'role ' || a.usename, 'from ' || pg_catalog.host(a.client_addr), 'connected since ' || `+inUTC("a.backend_start")+`, a.state || ' since ' || `+inUTC("a.state_change")+`)
		FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND (l.classid::bigint << 32) + l.objid::bigint = `+lockKey+`
		  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`, string(l.schema))
}

func inUTC(column string) string {
	return "pg_catalog.to_char(" + column + " AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'"
}

// SessionUnlock releases the lock.
func (l schemaLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var held bool
	err := conn.QueryRowContext(ctx, "SELECT pg_catalog.pg_advisory_unlock("+lockKey+")", string(l.schema)).Scan(&held)
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
