package pgtoken

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/token"
)

// Advisory is a [token.Issuer] whose lock is a PostgreSQL session's advisory
// lock: it lives and dies with a connection, which each lease has for itself.
// PostgreSQL keeps the line of those who wait, first come, first served, and
// serves the next one the moment a holder's process or session ends. The
// number comes from a durable row, as an Issuer's does.
//
// # The ttl
//
// PostgreSQL gives such a lock no end. The session gets one: its
// idle_session_timeout is the ttl, so that the server ends it, and the lock
// with it, one ttl after the last renewal it has got. The server starts to
// count when it has answered and Until counts from before the question was
// sent, so a lock that times out is free after Until. At Until this process
// ends the session too, as far as it lives.
//
// Until is no promise of the server's: whatever ends the session earlier frees
// the lock at that moment, and nobody tells the holder. A broken connection,
// pg_terminate_backend, a restart and a failover do. The next renewal finds out;
// until then only a guard keeps the old holder's writes from the new one's.
//
// # What it needs
//
// PostgreSQL 14, for that setting. A connection to the server itself: a pooler
// between them is found by the number of the server's process and refused,
// whatever its mode. A connection of Pool for every lease and every waiter:
// where Pool is at its MaxConns, Acquire waits for one. A pool that the
// program's queries use too can end with everybody waiting for everybody, so
// give locks a pool of their own.
//
// A waiter's session waits inside a transaction, which keeps vacuum from
// removing what was deleted since: for waits of hours, an Issuer is better.
// [token.Locker.AtLeast] lasts no longer than the process. A resource is locked
// by all programs with an Advisory, or by all with an Issuer: neither sees the
// other's locks, though their numbers compare.
//
// # Connections in doubt
//
// A connection goes back to Pool only when the server has confirmed that the
// lock is given back. After any error, and when a context has ended a call, it
// is closed instead: a pool that got it back with the lock would let the next
// one who takes it into the lock as well.
//
// An Advisory is safe for concurrent use; its fields must not change after
// first use. It is not to be copied.
type Advisory struct {
	// Pool is required. It is not closed by the Advisory.
	Pool *pgxpool.Pool
	// Schema is where the migrations put their functions, as [Issuer.Schema].
	Schema string

	sessions sessions
}

var (
	_ token.Issuer = (*Advisory)(nil)
	_ token.Waiter = (*Advisory)(nil)
	_ token.Raiser = (*Advisory)(nil)
)

// Acquire implements [token.Issuer]. Asked again by the holder who has the
// resource it returns a new number; only this Advisory knows whose session is
// whose. The ttl is at most 24 days.
//
// A HeldError has the holder to whom the resource was granted last, which is
// the one before in the moment of a hand-over. Its Remaining is the ttl of that
// grant: how long the lock outlasts the holder's last sign of life. When that
// was is unknown. Both are empty where nobody was granted it before.
//
// Where ctx ends the call, the error is [context.Cause], and what was granted
// in that moment ends with its connection.
func (a *Advisory) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := a.check(tok, ttl); err != nil {
		return token.Grant{}, err
	}
	grant, conn, err := a.ask(ctx, tok, ttl)
	if conn != nil {
		conn.Release()
	}
	return grant, err
}

func (a *Advisory) check(tok token.Token, ttl time.Duration) error {
	if a.Pool == nil {
		return errors.New("pgtoken: Advisory has no Pool")
	}
	if err := tok.Check(); err != nil {
		return err
	}
	return checkIdle(ttl)
}
