package pgadvisory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/pgcall"
	"github.com/fencepost/fencepost/token"
)

// closeTimeout bounds the end of a session that may have a lock. The tests set a longer
// one, since the server of a busy machine may take more than a second.
var closeTimeout = time.Second

// connection takes a connection out of the pool. If there is none, it waits.
func (i *Issuer) connection(ctx context.Context) (*pgxpool.Conn, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := i.sessions.check(); err != nil {
		return nil, err
	}
	conn, err := i.Pool.Acquire(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, fmt.Errorf("%w (%w)", cause, err)
	}
	return conn, pgcall.Unreachable(err)
}

// call runs one statement in a transaction on conn.
func (i *Issuer) call(ctx context.Context, conn *pgxpool.Conn, sql string, args []any, row ...any) error {
	if err := pgcall.CheckIdle(conn.Conn()); err != nil {
		return err
	}
	return pgcall.Transact(ctx, conn.Conn(), pgcall.InSchema(i.Schema, sql), args, row...)
}

// destroy ends the session and frees its place in the pool. When it returns, the lock is
// free, or the server cannot be reached. Closing a connection does not wait for the
// server, so destroy first releases the session's locks. If the context of a call has
// already closed the connection, pgx cancels the statement and awaits the end in the
// background; destroy waits for that.
func destroy(conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	inner := conn.Conn()
	if !inner.IsClosed() {
		_, _ = inner.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock_all()") // the session ends in any case
	}
	_ = inner.Close(ctx) // as above
	select {
	case <-inner.PgConn().CleanupDone():
	case <-ctx.Done():
	}
	conn.Release()
}

// process returns the process id that the server reported when conn was opened. A pooler
// reports an id that it has made up.
func process(conn *pgxpool.Conn) int32 { return int32(conn.Conn().PgConn().PID()) }

// session is a connection that has a lock.
type session struct {
	issuer *Issuer
	tok    token.Token
	turn   chan struct{} // of capacity 1; guards the fields that follow
	conn   *pgxpool.Conn // nil if the session has ended
	until  time.Time
	timer  *time.Timer
}

func (i *Issuer) keep(conn *pgxpool.Conn, tok token.Token, until time.Time) (token.Grant, error) {
	s := &session{issuer: i, tok: tok, turn: make(chan struct{}, 1), conn: conn, until: until}
	s.turn <- struct{}{}
	defer s.unlock()
	if err := i.sessions.put(s); err != nil {
		destroy(conn)
		return token.Grant{}, err
	}
	s.timer = time.AfterFunc(time.Until(until), s.expire)
	return token.Grant{Token: tok, Until: until}, nil
}

// lock locks the session. If ctx ends first, it returns its cause, and the session is not
// locked.
func (s *session) lock(ctx context.Context) error {
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

func (s *session) unlock() { <-s.turn }

// expire ends a session that was not renewed in time, so that a lease that is never
// released keeps no connection.
func (s *session) expire() {
	s.turn <- struct{}{} // waits for a renewal in flight
	defer s.unlock()
	if s.conn != nil && s.hasExpired() {
		s.end(destroy)
	}
}

func (s *session) hasExpired() bool { return !time.Now().Before(s.until) }

// end ends the session and passes its connection to finish. The session stays in sessions
// until the lock is free: a call that finds it waits for its lock, while a call that did
// not find it could be refused a lock that is about to become free.
func (s *session) end(finish func(conn *pgxpool.Conn)) {
	conn := s.conn
	s.conn = nil
	s.timer.Stop()
	finish(conn)
	s.issuer.sessions.drop(s)
}

// renewal is the result of a renewal. number is above 0 if it succeeded.
type renewal struct {
	number int64
	until  time.Time
	err    error
}

// renew sends sql on the session's connection. If ctx ends first, the call continues in
// the background: cancelling it would close the connection, and so lose the lock.
func (s *session) renew(ctx context.Context, ttl time.Duration, sql string) renewal {
	if err := s.lock(ctx); err != nil {
		return renewal{err: err}
	}
	renewals := make(chan renewal, 1)
	go func() {
		defer s.unlock()
		renewals <- s.call(context.WithoutCancel(ctx), ttl, sql)
	}()
	select {
	case got := <-renewals:
		return got
	case <-ctx.Done():
		return renewal{err: context.Cause(ctx)}
	}
}

// call runs sql on the connection. The caller has locked the session.
func (s *session) call(ctx context.Context, ttl time.Duration, sql string) (got renewal) {
	if s.conn == nil {
		return renewal{err: token.ErrLost}
	}
	ctx, cancel := context.WithDeadline(ctx, s.until)
	defer cancel()
	sent := time.Now()
	got.err = s.issuer.call(ctx, s.conn, sql, []any{s.tok.Resource, s.tok.Holder, milliseconds(ttl)}, &got.number)
	switch {
	case got.err == nil && got.number > 0:
		s.until = sent.Add(ttl)
		s.timer.Reset(time.Until(s.until))
		got.until = s.until
	case got.err == nil, s.conn.Conn().IsClosed(), s.hasExpired():
		// The session has lost its lock, or the reply came too late.
		s.end(destroy)
		got.err = errors.Join(token.ErrLost, got.err)
	}
	return got
}

var errClosed = errors.New("Issuer is closed")

// sessions has the sessions of an Issuer that have a lock.
type sessions struct {
	mu     sync.Mutex
	all    map[sessionKey]*session
	closed bool
}

// sessionKey identifies a lease by the fields that requests compare.
type sessionKey struct{ resource, holder string }

func keyOf(tok token.Token) sessionKey { return sessionKey{tok.Resource, tok.Holder} }

// check returns an error if the Issuer is closed.
func (s *sessions) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// get returns the session of tok, or nil if there is none.
func (s *sessions) get(tok token.Token) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[keyOf(tok)]
}

func (s *sessions) put(one *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	if s.all == nil {
		s.all = map[sessionKey]*session{}
	}
	s.all[keyOf(one.tok)] = one
	return nil
}

// drop removes one, unless another session has replaced it.
func (s *sessions) drop(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[keyOf(one.tok)] == one {
		delete(s.all, keyOf(one.tok))
	}
}

// close returns all sessions. After close, put returns an error.
func (s *sessions) close() map[sessionKey]*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all, s.closed = nil, true
	return all
}
