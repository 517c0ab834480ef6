package pgtoken

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed advisory_renew.sql
	advisoryRenewSQL string
	//go:embed advisory_release.sql
	advisoryReleaseSQL string
)

// Close ends the sessions of all leases, and so their locks, and gives their
// connections back. It comes before Pool.Close, which would wait for them. What
// is acquired later is an error. It returns nil.
func (a *Advisory) Close() error {
	for _, s := range a.sessions.close() {
		s.turn <- struct{}{}
		if s.conn != nil {
			destroy(s.over())
		}
		s.leave()
	}
	return nil
}

// Renew implements [token.Issuer]: one round trip on the lease's own connection,
// which shows that the session is there. Where it is not, the lock is lost, and
// the error is [token.ErrLost] beside what the connection said. Where ctx ends
// the call the renewal goes on, and may have been made.
func (a *Advisory) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if err := checkIdle(ttl); err != nil {
		return time.Time{}, err
	}
	got := answer{err: token.ErrLost}
	if s := a.sessions.get(tok); s != nil {
		got = s.ask(ctx, ttl, advisoryRenewSQL)
	}
	if got.err != nil {
		return time.Time{}, fmt.Errorf("pgtoken: renew %s: %w", tok, got.err)
	}
	return got.until, nil
}

// Release implements [token.Issuer]. Where it fails, the session is ended, and
// the lock is free as soon as the server has noticed.
func (a *Advisory) Release(ctx context.Context, tok token.Token) error {
	s := a.sessions.get(tok)
	if s == nil {
		return fmt.Errorf("pgtoken: release %s: %w", tok, token.ErrLost)
	}
	if err := s.release(ctx); err != nil {
		return fmt.Errorf("pgtoken: release %s: %w", tok, err)
	}
	return nil
}

func (s *session) release(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	if s.conn == nil {
		return token.ErrLost
	}
	conn := s.over()
	var released bool
	err := s.issuer.on(conn).call(ctx, advisoryReleaseSQL, []any{s.tok.Resource, s.tok.Holder}, &released)
	if err == nil && released {
		conn.Release() // which closes what is not idle
		return nil
	}
	destroy(conn)
	var server *pgconn.PgError
	if err == nil || errors.As(err, &server) && server.Severity == "FATAL" { // it was over before we asked
		return errors.Join(token.ErrLost, err)
	}
	return err
}
