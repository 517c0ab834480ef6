package pgtoken

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// maxPatience bounds the time that a renewal waits for a connection of the pool only.
const maxPatience = 250 * time.Millisecond

var errClosed = errors.New("pgtoken: the Issuer is closed")

// renewal runs a statement that renews. It prevents the following:
//
//  1. The application's transactions have all connections of the pool.
//  2. The renewal waits behind them until its context ends, and so do all others.
//  3. Every lease of the process is lost, although it is alive and the server replies.
func (i *Issuer) renewal(ctx context.Context, sql string, args []any, row ...any) error {
	pool, ok := i.DB.(*pgxpool.Pool)
	if !ok {
		return i.run(ctx, sql, args, row...)
	}
	conn, err := i.renewalConn(ctx, pool)
	if err != nil {
		return explain(ctx, err)
	}
	defer conn.Release()
	return i.runOn(ctx, conn, sql, args, row...)
}

// renewalConn returns the first connection of two: of the pool, or, after the patience, of
// the spare. The spare may have to wait too, because the server has no room or does not
// reply, and the application may return a connection first. It leaves three quarters of the
// time to the connect and the statement.
func (i *Issuer) renewalConn(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	patience := maxPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/4)
	}
	racing, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn *pgxpool.Conn
		err  error
	}
	results := make(chan result, 2)
	go func() {
		conn, err := pool.Acquire(racing)
		results <- result{conn, err}
	}()
	select {
	case r := <-results:
		return r.conn, r.err
	case <-time.After(patience):
	}
	go func() {
		conn, err := i.spare.acquire(racing, pool, i.queue.idleTimeout())
		results <- result{conn, err}
	}()
	first := <-results
	if first.err != nil {
		second := <-results
		if second.err != nil {
			return nil, errors.Join(first.err, second.err)
		}
		return second.conn, nil
	}
	go func() {
		if late := <-results; late.err == nil {
			late.conn.Release()
		}
	}()
	return first.conn, nil
}

// spare has the connections of an Issuer outside of the application's pool. The zero value
// is ready for use.
type spare struct {
	mu sync.Mutex
	// pool is nil while there are no connections. It has the settings of the
	// application's pool, whose hooks may set a password that rotates, a role or a tracer.
	pool    *pgxpool.Pool
	waiting int       // calls of acquire
	used    time.Time // when a call last began or ended
	closed  bool
}

func (s *spare) acquire(ctx context.Context, application *pgxpool.Pool, idleTimeout time.Duration) (*pgxpool.Conn, error) {
	s.count(1)
	defer s.count(-1)
	pool, err := s.open(application, idleTimeout)
	if err != nil {
		return nil, err
	}
	return pool.Acquire(ctx)
}

func (s *spare) count(calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += calls
	s.used = time.Now()
}

func (s *spare) open(application *pgxpool.Pool, idleTimeout time.Duration) (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.pool != nil {
		return s.pool, nil
	}
	config := application.Config()
	// One connection is opened for the batches. The others are for leases whose rows are
	// locked: with one connection, they would stop the renewal of all other leases.
	config.MaxConns, config.MinConns, config.MinIdleConns = 1+maxParallel, 0, 0
	prepare := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		// A pooler accepts a client also if it has no session for it.
		bound, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		if err := conn.Ping(bound); err != nil || prepare == nil {
			return err
		}
		return prepare(ctx, conn)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err == nil {
		s.pool = pool
		s.closeWhenIdle(idleTimeout)
	}
	return pool, err
}

// closeWhenIdle closes the connections after the idle timeout without a use.
func (s *spare) closeWhenIdle(idleTimeout time.Duration) {
	time.AfterFunc(time.Until(s.used.Add(idleTimeout)), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting > 0 { // a connect may take longer than the idle timeout
			s.used = time.Now()
		}
		if time.Since(s.used) < idleTimeout {
			s.closeWhenIdle(idleTimeout)
		} else if s.pool != nil {
			go s.pool.Close() // waits for the calls that use it
			s.pool = nil
		}
	})
}

// close returns when the calls that use the connections have returned, and they are
// closed. Later renewals wait for the application's pool.
func (s *spare) close() {
	s.mu.Lock()
	pool := s.pool
	s.pool, s.closed = nil, true
	s.mu.Unlock()
	if pool != nil {
		pool.Close()
	}
}
