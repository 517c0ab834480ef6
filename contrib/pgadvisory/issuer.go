package pgadvisory

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/pgcall"
	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed acquire.sql
	acquireSQL string
	//go:embed renew.sql
	renewSQL string
	//go:embed release.sql
	releaseSQL string
	//go:embed recover.sql
	recoverSQL string
)

// Issuer is a [token.Issuer] whose lock is a PostgreSQL session's advisory lock, and a
// [token.QueueIssuer] and [token.Recoverer]. It is safe for concurrent use. Its fields
// must not change after first use. It must not be copied.
type Issuer struct {
	// Pool is required. The Issuer does not close it.
	Pool *pgxpool.Pool
	// Schema is the schema with the functions of package migrations. Programs that share
	// locks use the same schema. It is quoted, so any name is valid. Empty means
	// "fencepost".
	Schema string

	sessions sessions
}

var (
	_ token.Issuer      = (*Issuer)(nil)
	_ token.QueueIssuer = (*Issuer)(nil)
	_ token.Recoverer   = (*Issuer)(nil)
)

// Acquire implements [token.Issuer]. If holder has acquired the resource through this
// Issuer already, Acquire returns a new number. The ttl is at least 1 µs and at most 24
// days.
//
// The Holder of a [token.HeldError] is the holder to which the resource was last granted;
// during a hand-off, that is the previous holder. Remaining is the ttl of that grant: how
// long the lock can outlast the holder's last request, whose time is not known. Both are
// empty if the resource was never granted before.
//
// If ctx ends during the call, Acquire returns [context.Cause], and a grant made at that
// moment ends with its connection.
func (i *Issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	tok := token.Token{Resource: resource, Number: 1, Holder: holder}
	if err := i.check(tok, ttl); err != nil {
		return token.Grant{}, err
	}
	grant, conn, err := i.acquire(ctx, tok, ttl)
	if conn != nil {
		conn.Release()
	}
	return grant, err
}

// acquire returns a connection only if the lock is held. The caller waits on it, or
// releases it.
func (i *Issuer) acquire(ctx context.Context, tok token.Token, ttl time.Duration) (token.Grant, *pgxpool.Conn, error) {
	grant, err := i.reacquire(ctx, tok, ttl)
	if errors.Is(err, token.ErrLost) {
		var conn *pgxpool.Conn
		if conn, err = i.connection(ctx); err == nil {
			var held *token.HeldError
			if grant, held, err = i.tryLock(ctx, conn, tok, ttl); held != nil {
				return grant, conn, held
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("pgadvisory: acquire %s: %w", tok.Resource, err)
	}
	return grant, nil, err
}

// reacquire returns a new number if the holder has the resource already, and
// [token.ErrLost] if not.
func (i *Issuer) reacquire(ctx context.Context, tok token.Token, ttl time.Duration) (token.Grant, error) {
	s := i.sessions.get(tok)
	if s == nil {
		return token.Grant{}, token.ErrLost
	}
	got := s.renew(ctx, ttl, drawSQL)
	if got.err != nil {
		return token.Grant{}, got.err
	}
	tok.Number = got.number
	return token.Grant{Token: tok, Until: got.until}, nil
}

// tryLock acquires the lock on conn if it is free. If not, conn is unchanged.
func (i *Issuer) tryLock(ctx context.Context, conn *pgxpool.Conn, tok token.Token, ttl time.Duration) (
	grant token.Grant, held *token.HeldError, err error,
) {
	held = &token.HeldError{Resource: tok.Resource}
	var granted bool
	var remaining pgcall.Microseconds
	sent := time.Now()
	err = i.call(ctx, conn, acquireSQL, []any{tok.Resource, tok.Holder, milliseconds(ttl), process(conn)},
		&granted, &tok.Number, &held.Holder, &remaining)
	switch {
	case err != nil:
		destroy(conn) // it may have the lock
		return grant, nil, err
	case !granted:
		held.Remaining = remaining.Duration()
		return grant, held, nil
	}
	grant, err = i.keep(conn, tok, sent.Add(ttl))
	return grant, nil, err
}

// Renew implements [token.Issuer]. It takes one round trip on the lease's own connection.
// If the session has ended, the lock is lost, and the error is [token.ErrLost], joined
// with the connection's error. If ctx ends during the call, the renewal continues and may
// take effect.
func (i *Issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := checkTTL(ttl); err != nil {
		return time.Time{}, err
	}
	got := renewal{err: token.ErrLost}
	if s := i.sessions.get(tok); s != nil {
		got = s.renew(ctx, ttl, renewSQL)
	}
	if got.err != nil {
		return time.Time{}, fmt.Errorf("pgadvisory: renew %s: %w", tok, got.err)
	}
	return got.until, nil
}

// Release implements [token.Issuer]. If it fails, it ends the session, and the lock is
// free when the server has noticed that.
func (i *Issuer) Release(ctx context.Context, tok token.Token) error {
	s := i.sessions.get(tok)
	if s == nil {
		return fmt.Errorf("pgadvisory: release %s: %w", tok, token.ErrLost)
	}
	if err := s.release(ctx); err != nil {
		return fmt.Errorf("pgadvisory: release %s: %w", tok, err)
	}
	return nil
}

func (s *session) release(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	switch {
	case s.conn == nil:
		return token.ErrLost
	case s.hasExpired(): // before its timer has fired
		s.end(destroy)
		return token.ErrLost
	}
	var released bool
	var err error
	s.end(func(conn *pgxpool.Conn) {
		err = s.issuer.call(ctx, conn, releaseSQL, []any{s.tok.Resource, s.tok.Holder}, &released)
		if err == nil && released {
			conn.Release() // closes the connection if it is not idle
			return
		}
		destroy(conn)
	})
	var server *pgconn.PgError
	switch {
	case released && err == nil:
		return nil
	case err == nil, errors.As(err, &server) && server.Severity == "FATAL": // the session had ended before the call
		return errors.Join(token.ErrLost, err)
	}
	return err
}

// Recover implements [token.Recoverer]. It raises the numbers of this resource only.
func (i *Issuer) Recover(ctx context.Context, resource string, number int64) error {
	if i.Pool == nil {
		return errNoPool
	}
	if err := (token.Token{Resource: resource, Number: number, Holder: "recover"}).Validate(); err != nil {
		return err
	}
	var raised *bool
	err := pgcall.Transact(ctx, i.Pool, pgcall.InSchema(i.Schema, recoverSQL), []any{resource, number}, &raised)
	switch {
	case err != nil:
	case raised == nil:
		err = token.ErrTooFarAhead
	case !*raised:
		err = token.ErrLost
	}
	if err != nil {
		return fmt.Errorf("pgadvisory: recover %s to %d: %w", resource, number, err)
	}
	return nil
}

// Close ends the sessions of all leases, and so their locks, and returns their
// connections to Pool. Call it before Pool.Close, which would wait for them. After Close,
// Acquire and Wait return an error. Close returns nil.
func (i *Issuer) Close() error {
	for _, s := range i.sessions.close() {
		s.turn <- struct{}{}
		if s.conn != nil {
			s.end(destroy)
		}
		s.unlock()
	}
	return nil
}

var errNoPool = errors.New("pgadvisory: Issuer has no Pool")

func (i *Issuer) check(tok token.Token, ttl time.Duration) error {
	if i.Pool == nil {
		return errNoPool
	}
	if err := tok.Validate(); err != nil {
		return err
	}
	return checkTTL(ttl)
}

// checkTTL checks that ttl fits idle_session_timeout, a 32-bit number of milliseconds.
func checkTTL(ttl time.Duration) error {
	const most = math.MaxInt32 * time.Millisecond
	if ttl > most {
		return fmt.Errorf("pgadvisory: ttl %s is more than %s", ttl, most)
	}
	if ttl < time.Microsecond {
		return fmt.Errorf("pgadvisory: ttl %s is less than 1µs", ttl)
	}
	return nil
}

// milliseconds rounds up, since a session that ends early loses its lock early.
func milliseconds(ttl time.Duration) int32 {
	return int32((ttl + time.Millisecond - 1) / time.Millisecond)
}
