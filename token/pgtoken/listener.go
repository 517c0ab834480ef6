package pgtoken

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connPool is a DB from which the listener can take a connection.
type connPool interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

const (
	// keepaliveInterval is the interval between pings of the connection.
	keepaliveInterval = 15 * time.Second
	// The pause before a reconnect doubles from the minimum to the maximum.
	minReconnectBackoff = 10 * time.Millisecond
	maxReconnectBackoff = 5 * time.Second
	// connectTimeout bounds the connect, and each ping.
	connectTimeout = 5 * time.Second
)

// errPooled is returned if the connection cannot receive the notifications: it is to a
// pooler, where another client may use the server's session at the next moment, or its
// own OnNotification has received one.
var errPooled = errors.New("pgtoken: connected to a pooler: waiters poll")

// listen maintains the session that receives the notifications for all waiters. It
// reconnects until ctx ends, until there was no waiter for the idle timeout, or until
// errPooled.
func (q *waitQueue) listen(ctx context.Context, i *Issuer, pool connPool) {
	for backoff := minReconnectBackoff; ctx.Err() == nil; backoff = min(2*backoff, maxReconnectBackoff) {
		began := time.Now()
		conn, channel, err := connect(ctx, pool)
		if err == nil {
			q.setByListener(listening, channel)
			err = q.read(ctx, i, conn)
		}
		if conn != nil {
			disconnect(ctx, conn)
		}
		switch {
		case err == nil:
			return
		case errors.Is(err, errPooled):
			q.stopListening()
			return
		case q.stopIfIdle():
			return
		}
		q.setByListener(polling, 0)
		if time.Since(began) > maxReconnectBackoff {
			backoff = minReconnectBackoff
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
	}
}

// connect takes a connection out of the pool permanently.
func connect(ctx context.Context, pool connPool) (*pgx.Conn, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	pooled, err := pool.Acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	conn := pooled.Hijack()
	results, err := conn.PgConn().Exec(ctx, "SELECT pg_catalog.pg_backend_pid()").ReadAll()
	if err != nil {
		return conn, 0, err
	}
	// In a pooler's session, LISTEN and the lock would remain for the session's next
	// client.
	if pid := string(results[0].Rows[0][0]); pid != fmt.Sprint(conn.PgConn().PID()) {
		return conn, 0, errPooled
	}
	channel := 1 + rand.Int64N(1<<62)
	_, err = conn.PgConn().Exec(ctx, fmt.Sprintf(
		`LISTEN "fencepost_%x"; SELECT pg_catalog.pg_advisory_lock(%d)`, channel, channel)).ReadAll()
	return conn, channel, err
}

// read returns an error when the session or ctx has ended. It returns nil if there was no
// waiter for the idle timeout.
func (q *waitQueue) read(ctx context.Context, i *Issuer, conn *pgx.Conn) error {
	for {
		n, err := q.receive(ctx, conn)
		switch {
		case err == nil && n == nil: // the pool's own OnNotification has received it
			return errPooled
		case err == nil:
			if n, err := parseNotification(n.Payload, time.Now()); err == nil {
				q.deliver(i, n)
			}
		case ctx.Err() != nil || conn.IsClosed():
			return err
		case q.stopIfIdle():
			return nil
		default:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// receive returns a notification, or an error after the keepalive interval; the
// connection stays open then.
func (q *waitQueue) receive(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, min(keepaliveInterval, q.idleTimeout()))
	defer cancel()
	return conn.WaitForNotification(ctx)
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

func disconnect(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
