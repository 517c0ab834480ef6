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

// lender is a DB that can spare a connection.
type lender interface {
	Acquire(ctx context.Context) (*pgxpool.Conn, error)
}

const (
	// silence is after how long without a waiter the connection is closed.
	silence = time.Minute
	// beat is how often it is looked after.
	beat = 15 * time.Second
	// firstPause is how long a lost one is mourned.
	firstPause = 10 * time.Millisecond
	// patient bounds each step on the way to it.
	patient = 5 * time.Second
)

// errPooled is found where the connection is to a pooler: the server's session
// behind it is another's in the next moment.
var errPooled = errors.New("pgtoken: a pooler is in between: waiters ask again and again")

// listener keeps the session of notifications.
type listener struct {
	issuer *Issuer
	source lender
}

func (s *listener) run(ctx context.Context) {
	line := &s.issuer.line
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, patient) {
		began := time.Now()
		conn, inbox, err := s.connect(ctx)
		if err == nil {
			line.become(listening, inbox)
			err = s.read(ctx, conn)
		}
		if conn != nil {
			s.close(ctx, conn)
		}
		switch {
		case err == nil:
			return
		case errors.Is(err, errPooled):
			line.giveUp()
			return
		case line.quiet():
			return
		}
		line.become(polling, 0)
		if time.Since(began) > patient {
			pause = firstPause
		}
		sleep(ctx, pause/2+rand.N(pause))
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

// connect takes a connection out of the pool for good.
func (s *listener) connect(ctx context.Context) (*pgx.Conn, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	lent, err := s.source.Acquire(ctx)
	if err != nil {
		return nil, 0, err
	}
	conn := lent.Hijack()
	results, err := conn.PgConn().Exec(ctx, "SELECT pg_catalog.pg_backend_pid()").ReadAll()
	if err != nil {
		return conn, 0, err
	}
	// A LISTEN in a pooler's session would stay there for whoever comes next, and so would the lock.
	if pid := string(results[0].Rows[0][0]); pid != fmt.Sprint(conn.PgConn().PID()) {
		return conn, 0, errPooled
	}
	inbox := 1 + rand.Int64N(1<<62)
	_, err = conn.PgConn().Exec(ctx, fmt.Sprintf(
		`LISTEN "fencepost_%x"; SELECT pg_catalog.pg_advisory_lock(%d)`, inbox, inbox)).ReadAll()
	return conn, inbox, err
}

// read ends when the session does, or ctx; without an error, when nobody has
// waited for long.
func (s *listener) read(ctx context.Context, conn *pgx.Conn) error {
	for {
		n, err := s.await(ctx, conn)
		switch {
		case err == nil && n == nil: // the pool's own OnNotification has it
			return errPooled
		case err == nil:
			if m, err := parseMessage(n.Payload, time.Now()); err == nil {
				s.issuer.line.deliver(s.issuer, m)
			}
		case ctx.Err() != nil || conn.IsClosed():
			return err
		case s.issuer.line.quiet():
			return nil
		default:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// await ends after a beat too; the connection outlives that.
func (s *listener) await(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	ctx, cancel := context.WithTimeout(ctx, min(beat, s.issuer.line.patience()))
	defer cancel()
	return conn.WaitForNotification(ctx)
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	return conn.Ping(ctx)
}

func (s *listener) close(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	_ = conn.Close(ctx)
}
