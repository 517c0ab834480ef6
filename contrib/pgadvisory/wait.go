package pgadvisory

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/pgcall"
	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed queue.sql
	queueSQL string
	//go:embed wait.sql
	waitSQL string
	//go:embed draw.sql
	drawSQL string
)

// errPassedOver is returned if the session was lost between the lock and its number.
var errPassedOver = errors.New("the waiter did not reply in time when the lock was granted")

// Wait implements [token.QueueIssuer] with PostgreSQL's own queue of sessions that wait
// for a lock. Waiters are served in the order of arrival, and Acquire does not overtake
// them. A waiter leaves the queue only when ctx ends; the session's statement_timeout and
// lock_timeout do not apply. If a waiter's process has died, the server removes it from
// the queue, on systems where it can detect that, such as Linux. If a waiter that is
// granted the lock does not reply for a third of its ttl, or a second if that is longer,
// it is skipped, and queues again at the end.
func (i *Issuer) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := i.check(tok, ttl); err != nil {
		return token.Grant{}, err
	}
	for {
		grant, conn, refused := i.acquire(ctx, tok, ttl)
		if conn == nil {
			return grant, refused
		}
		grant, err := i.waitOn(ctx, conn, tok, ttl)
		switch {
		case err == nil:
			return grant, nil
		case context.Cause(ctx) != nil:
			err = errors.Join(context.Cause(ctx), refused, err)
		case errors.Is(err, errPassedOver):
			continue
		default:
			err = pgcall.Unreachable(err)
		}
		return token.Grant{}, fmt.Errorf("pgadvisory: wait for %s: %w", resource, err)
	}
}

// waitOn waits for the lock, and draws the number in a second round trip. The lease
// counts from the start of that second one, since the client cannot measure when in the
// first one the lock was granted.
func (i *Issuer) waitOn(ctx context.Context, conn *pgxpool.Conn, tok token.Token, ttl time.Duration) (token.Grant, error) {
	if err := i.enqueue(ctx, conn, tok, min(ttl, max(ttl/3, time.Second))); err != nil {
		destroy(conn) // it may have the lock
		return token.Grant{}, err
	}
	sent := time.Now()
	err := i.call(ctx, conn, drawSQL, []any{tok.Resource, tok.Holder, milliseconds(ttl)}, &tok.Number)
	if err == nil {
		return i.keep(conn, tok, sent.Add(ttl))
	}
	if conn.Conn().IsClosed() {
		err = fmt.Errorf("%w: %w", errPassedOver, err)
	}
	destroy(conn)
	return token.Grant{}, err
}

// enqueue returns when the session has the lock. If the session sends nothing for the
// duration answer after that, the server ends it.
func (i *Issuer) enqueue(ctx context.Context, conn *pgxpool.Conn, tok token.Token, answer time.Duration) error {
	b := &pgx.Batch{}
	b.BeginTx(pgcall.TxOptions)
	b.Queue(pgcall.InSchema(i.Schema, queueSQL), tok.Resource, tok.Holder, milliseconds(answer), process(conn))
	b.Queue(pgcall.InSchema(i.Schema, waitSQL), tok.Resource, tok.Holder, milliseconds(answer))
	b.Queue("commit")
	return conn.Conn().SendBatch(ctx, b).Close()
}
