package pgtoken

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed advisory_queue.sql
	advisoryQueueSQL string
	//go:embed advisory_wait.sql
	advisoryWaitSQL string
	//go:embed advisory_draw.sql
	advisoryDrawSQL string
)

// errOverslept is found where a session was lost between the lock and its
// number.
var errOverslept = errors.New("did not answer in its turn")

// Wait implements [token.Waiter], in PostgreSQL's own line of sessions that want
// a lock, which is first come, first served, and which Acquire does not pass.
// The line is not left for the session's statement_timeout or lock_timeout, only
// when ctx ends. A waiter whose process has died is taken out of it, where the
// server's system can tell, as Linux can. One that does not answer in its turn,
// for a third of its ttl or a second, is passed over, and stands at the end of
// the line again when it wakes.
func (a *Advisory) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := a.check(tok, ttl); err != nil {
		return token.Grant{}, err
	}
	for {
		grant, conn, refused := a.ask(ctx, tok, ttl)
		if conn == nil {
			return grant, refused
		}
		grant, err := a.stand(ctx, conn, tok, ttl)
		switch {
		case err == nil:
			return grant, nil
		case context.Cause(ctx) != nil:
			err = errors.Join(context.Cause(ctx), refused, err)
		case errors.Is(err, errOverslept):
			continue
		}
		return token.Grant{}, fmt.Errorf("pgtoken: wait for %s: %w", resource, err)
	}
}

// stand draws the number in a second trip, whose own start the lease counts
// from: how long the first one waited, and when that ended, only the server
// knows.
func (a *Advisory) stand(ctx context.Context, conn *pgxpool.Conn, tok token.Token, ttl time.Duration) (token.Grant, error) {
	if err := a.queue(ctx, conn, tok, min(ttl, max(ttl/3, time.Second))); err != nil {
		destroy(conn) // it may have the lock
		return token.Grant{}, err
	}
	sent := time.Now()
	err := a.on(conn).call(ctx, advisoryDrawSQL, []any{tok.Resource, tok.Holder, milliseconds(ttl)}, &tok.Number)
	if err == nil {
		return a.keep(conn, tok, sent.Add(ttl))
	}
	if conn.Conn().IsClosed() {
		err = fmt.Errorf("%w: %w", errOverslept, err)
	}
	destroy(conn)
	return token.Grant{}, err
}

// queue returns when the session has the lock.
func (a *Advisory) queue(ctx context.Context, conn *pgxpool.Conn, tok token.Token, answer time.Duration) error {
	iss := a.on(conn)
	b := &pgx.Batch{}
	b.BeginTx(own)
	b.Queue(iss.inSchema(advisoryQueueSQL), tok.Resource, tok.Holder, milliseconds(answer), process(conn))
	b.Queue(iss.inSchema(advisoryWaitSQL), tok.Resource, tok.Holder, milliseconds(answer))
	b.Queue("commit")
	return conn.Conn().SendBatch(ctx, b).Close()
}
