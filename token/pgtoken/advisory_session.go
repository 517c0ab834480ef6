package pgtoken

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/token"
)

// session is a connection that has a lock.
type session struct {
	issuer *Advisory
	tok    token.Token
	turn   chan struct{} // has one place: whoever is in may use what follows
	conn   *pgxpool.Conn // nil once it is over
	until  time.Time
	timer  *time.Timer
}

func (a *Advisory) keep(conn *pgxpool.Conn, tok token.Token, until time.Time) (token.Grant, error) {
	s := &session{issuer: a, tok: tok, turn: make(chan struct{}, 1), conn: conn, until: until}
	s.turn <- struct{}{}
	defer s.leave()
	if err := a.sessions.put(s); err != nil {
		destroy(conn)
		return token.Grant{}, err
	}
	s.timer = time.AfterFunc(time.Until(until), s.expire)
	return token.Grant{Token: tok, Until: until}, nil
}

// enter waits for the session's turn, but no longer than ctx. It must be left
// where there is no error.
func (s *session) enter(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) leave() { <-s.turn }

// expire ends what was not renewed in time, so that no connection is kept for
// a lease that nobody released.
func (s *session) expire() {
	s.turn <- struct{}{} // after a renewal that is on its way
	defer s.leave()
	if s.conn != nil && !time.Now().Before(s.until) {
		destroy(s.over())
	}
}

// over takes the connection out of the session, which has ended.
func (s *session) over() *pgxpool.Conn {
	conn := s.conn
	s.conn = nil
	s.timer.Stop()
	s.issuer.sessions.drop(s)
	return conn
}

// answer is a number above 0, and until when the session lasts.
type answer struct {
	number int64
	until  time.Time
	err    error
}

// ask leaves the question on its way where ctx ends first: to cut it off would
// be to close the connection, and so to lose the lock.
func (s *session) ask(ctx context.Context, ttl time.Duration, sql string) answer {
	if err := s.enter(ctx); err != nil {
		return answer{err: err}
	}
	answers := make(chan answer, 1)
	go func() {
		defer s.leave()
		answers <- s.call(context.WithoutCancel(ctx), ttl, sql)
	}()
	select {
	case got := <-answers:
		return got
	case <-ctx.Done():
		return answer{err: context.Cause(ctx)}
	}
}

// call is for whose turn it is.
func (s *session) call(ctx context.Context, ttl time.Duration, sql string) (got answer) {
	if s.conn == nil {
		return answer{err: token.ErrLost}
	}
	ctx, cancel := context.WithDeadline(ctx, s.until)
	defer cancel()
	sent := time.Now()
	got.err = s.issuer.on(s.conn).call(ctx, sql, []any{s.tok.Resource, s.tok.Holder, milliseconds(ttl)}, &got.number)
	switch {
	case got.err == nil && got.number > 0:
		s.until = sent.Add(ttl)
		s.timer.Reset(time.Until(s.until))
		got.until = s.until
	case got.err == nil, s.conn.Conn().IsClosed(), !time.Now().Before(s.until):
		// No other session has its lock, or it was asked too late.
		destroy(s.over())
		got.err = errors.Join(token.ErrLost, got.err)
	}
	return got
}
