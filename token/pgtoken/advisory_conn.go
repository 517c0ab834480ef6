package pgtoken

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// parting bounds what is done to end a session that may have a lock.
const parting = time.Second

// connection takes one out of the pool, where one may have to be waited for.
func (a *Advisory) connection(ctx context.Context) (*pgxpool.Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := a.sessions.open(); err != nil {
		return nil, err
	}
	conn, err := a.Pool.Acquire(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, fmt.Errorf("%w (%w)", cause, err)
	}
	return conn, err
}

// on sends what an Issuer sends, on that connection.
func (a *Advisory) on(conn *pgxpool.Conn) *Issuer {
	return &Issuer{DB: conn.Conn(), Schema: a.Schema}
}

// destroy ends the session, whatever it has, and gives the pool its place back.
// When it returns, the lock is free, or the server cannot be reached: Close does
// not wait for the server, so the locks are given up before it. A connection that
// its context has closed is at an end in the background, where its statement is
// cancelled first and the server's end awaited.
func destroy(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	inner := conn.Conn()
	if !inner.IsClosed() {
		_, _ = inner.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock_all()") // an error changes nothing
	}
	_ = inner.Close(ctx) // nor does this one
	select {
	case <-inner.PgConn().CleanupDone():
	case <-ctx.Done():
	}
	conn.Release()
}

// process is the server's, as it named itself at the start. A pooler names one
// that it made up.
func process(conn *pgxpool.Conn) int32 { return int32(conn.Conn().PgConn().PID()) }

// checkIdle refuses what idle_session_timeout cannot be, an int of milliseconds.
func checkIdle(ttl time.Duration) error {
	const most = math.MaxInt32 * time.Millisecond
	if ttl > most {
		return fmt.Errorf("pgtoken: ttl %s is more than %s", ttl, most)
	}
	return check(ttl)
}

// milliseconds are rounded up: a session that ends early loses its lock early.
func milliseconds(ttl time.Duration) int32 {
	return int32((ttl + time.Millisecond - 1) / time.Millisecond)
}
