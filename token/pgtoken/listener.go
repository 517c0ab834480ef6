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

// listener maintains the session that receives the notifications for all waiters of an
// Issuer.
type listener struct {
	issuer *Issuer
	pool   connPool
}

// run reconnects until ctx ends, until there was no waiter for the idle timeout, or until
// errPooled.
func (l *listener) run(ctx context.Context) {
	queue := &l.issuer.queue
	for backoff := minReconnectBackoff; ctx.Err() == nil; backoff = min(2*backoff, maxReconnectBackoff) {
		began := time.Now()
		conn, channel, err := l.connect(ctx)
		if err == nil {
			queue.setByListener(listening, channel)
			err = l.read(ctx, conn)
		}
		if conn != nil {
			l.close(ctx, conn)
		}
		switch {
		case err == nil:
			return
		case errors.Is(err, errPooled):
			queue.stopListening()
			return
		case queue.stopIfIdle():
			return
		}
		queue.setByListener(polling, 0)
		if time.Since(began) > maxReconnectBackoff {
			backoff = minReconnectBackoff
		}
		sleep(ctx, backoff/2+rand.N(backoff))
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// connect takes a connection out of the pool permanently.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	pooled, err := l.pool.Acquire(ctx)
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
func (l *listener) read(ctx context.Context, conn *pgx.Conn) error {
	queue := &l.issuer.queue
	for {
		n, err := l.receive(ctx, conn)
		switch {
		case err == nil && n == nil: // the pool's own OnNotification has received it
			return errPooled
		case err == nil:
			if n, err := parseNotification(n.Payload, time.Now()); err == nil {
				queue.deliver(l.issuer, n)
			}
		case ctx.Err() != nil || conn.IsClosed():
			return err
		case queue.stopIfIdle():
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
func (l *listener) receive(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, min(keepaliveInterval, l.issuer.queue.idleTimeout()))
	defer cancel()
	return conn.WaitForNotification(ctx)
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

func (l *listener) close(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
