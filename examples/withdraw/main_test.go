package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/internal/bank"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// A withdraws, and is paused between the lock and the write for longer than the lock
// lasts. B deposits in the meantime.
func TestThePausedWithdrawalIsRefused(t *testing.T) {
	t.Parallel()
	url, ctx := database(t), t.Context()
	client, prefix := testenv.Redis(t)
	var asleep atomic.Bool
	b := open(t, url, client, prefix, time.Hour, nil, nil)
	var err error
	paused := false
	for ttl := 200 * time.Millisecond; !paused; ttl *= 2 { // on a slow machine, A's lease ends before the pause
		a := open(t, url, client, prefix, ttl, &asleep, func() { // before the first packet of A's Update
			paused = true
			asleep.Store(true)
			require.NoError(t, withdraw(ctx, b.locks, b.fence, -10)) // waits until A's lease has ended
			asleep.Store(false)
		})
		err = withdraw(ctx, a.locks, a.fence, 30)
		require.Error(t, err)
	}

	require.ErrorIs(t, err, guard.ErrStale)
	require.ErrorIs(t, err, token.ErrLost)
	var balance int
	require.NoError(t, b.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance))
	require.Equal(t, 110, balance)

	var stale *guard.StaleError
	require.ErrorAs(t, err, &stale)
	text := strings.ReplaceAll(err.Error(), fmt.Sprint(stale.Token.Number), "1")
	text, _, _ = strings.Cut(text, " lost:") // the issuer's last reply, if there was one
	text = strings.TrimSuffix(text, " lost")
	require.Equal(t, fmt.Sprintf("guard: stale token account/42#1: overtaken by #%d of %s\ntoken: lease on account/42#1", stale.Mark.Number, stale.Mark.Holder), text)
}

type program struct {
	pool  *pgxpool.Pool
	fence *sqlguard.Guard
	locks *lock.Locker
}

// open does what run does. It calls pause when the pool lends its second connection:
// the first is for the claim, the second for the Update.
func open(t *testing.T, url string, client *redis.Client, prefix string, ttl time.Duration, asleep *atomic.Bool, pause func()) program {
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	var lent atomic.Int32
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
		if lent.Add(1) == 2 && pause != nil {
			pause()
		}
		return true, nil
	}
	config.ConnConfig.Tracer = pgxpoint.Tracer{} // for simulations
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	fence := &sqlguard.Guard{DB: pool, IdleTimeout: time.Hour} // so that a slow machine ends no session
	iss := pausable{&redistoken.Issuer{Client: client, Prefix: prefix}, asleep}
	return program{pool, fence, &lock.Locker{Issuer: iss, TTL: ttl, Claim: fence.Admit}}
}

// pausable renews nothing while asleep is true.
type pausable struct {
	token.Issuer
	asleep *atomic.Bool
}

func (s pausable) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if s.asleep != nil && s.asleep.Load() {
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	}
	return s.Issuer.Renew(ctx, tok, ttl)
}

// database returns the URL of a database with the program's table.
func database(t *testing.T) string {
	t.Helper()
	return bank.Database(t, "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL); INSERT INTO accounts VALUES (42, 100)")
}
