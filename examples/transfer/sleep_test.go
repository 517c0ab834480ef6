package transfer_test

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/token"
)

// sleep stops a program once: when it gets its nth connection, or sends a statement.
// While it is stopped, nothing is renewed, and the test's function runs.
type sleep struct {
	nth       int32
	statement string
	ttl       time.Duration // the program's, which expires in the meantime
	meanwhile func()

	connections atomic.Int32
	asleep      atomic.Bool
	over        atomic.Bool
}

func (s *sleep) lent(context.Context, *pgx.Conn) (bool, error) {
	if s.connections.Add(1) == s.nth {
		s.stop()
	}
	return true, nil
}

// TraceQueryStart implements [pgx.QueryTracer].
func (s *sleep) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if s.statement != "" && strings.HasPrefix(data.SQL, s.statement) {
		s.stop()
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (s *sleep) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *sleep) stop() {
	if s.over.CompareAndSwap(false, true) {
		s.asleep.Store(true)
		s.meanwhile()
		s.asleep.Store(false)
	}
}

// pausable renews nothing while its program is stopped.
type pausable struct {
	token.Issuer
	sleep *sleep
}

func (s pausable) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if s.sleep.asleep.Load() {
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	}
	return s.Issuer.Renew(ctx, tok, ttl)
}
