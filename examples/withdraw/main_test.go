package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The README's program, with its writer asleep between the lock and the write
// for longer than the lock lasts.
func TestThePausedWithdrawalIsRefusedAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	url, ctx := database(t), t.Context()
	client, prefix := testenv.Redis(t)
	var asleep atomic.Bool
	b := open(t, url, client, prefix, nil, nil)
	a := open(t, url, client, prefix, &asleep, func() { // at the first packet of A's Update
		asleep.Store(true)
		require.NoError(t, withdraw(ctx, b.locks, b.fence, -10)) // waits for A's lock to run out
		asleep.Store(false)
	})

	err := withdraw(ctx, a.locks, a.fence, 30)

	require.ErrorIs(t, err, guard.ErrStale)
	require.ErrorIs(t, err, token.ErrLost)
	var balance int
	require.NoError(t, b.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&balance))
	require.Equal(t, 110, balance)

	var stale *guard.StaleError
	require.ErrorAs(t, err, &stale)
	readme, readErr := os.ReadFile("../../README.md")
	require.NoError(t, readErr)
	said := strings.ReplaceAll(err.Error(), fmt.Sprint(stale.Token.Number), "179516977481431")
	said, _, _ = strings.Cut(said, " lost:") // the issuer's last answer, if it gave one
	said = strings.TrimSuffix(said, " lost")
	require.True(t, strings.Contains(string(readme), "\n"+said+" lost\n"), "the README does not show: %s", said)
}

type program struct {
	pool  *pgxpool.Pool
	fence *sqlguard.Guard
	locks *token.Locker
}

// open does what run does. The second connection that the pool lends is for the
// Update, after that for the claim: pause is called then.
func open(t *testing.T, url string, client *redis.Client, prefix string, asleep *atomic.Bool, pause func()) program {
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	var lent atomic.Int32
	config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
		if lent.Add(1) == 2 && pause != nil {
			pause()
		}
		return true, nil
	}
	config.ConnConfig.Tracer = pgxpoint.Tracer{} // of use to simulations alone
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	fence := &sqlguard.Guard{DB: pool}
	iss := sleeper{&redistoken.Issuer{Client: client, Prefix: prefix}, asleep}
	return program{pool, fence, &token.Locker{Issuer: iss, TTL: 200 * time.Millisecond, Claim: fence.Admit}}
}

// sleeper renews nothing while its process is to be asleep.
type sleeper struct {
	token.Issuer
	asleep *atomic.Bool
}

func (s sleeper) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if s.asleep != nil && s.asleep.Load() {
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	}
	return s.Issuer.Renew(ctx, tok, ttl)
}

// database makes a database of this test alone, since the program uses the
// default schema, and returns its URL.
func database(t *testing.T) string {
	url := testenv.Database(t)
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	defer pool.Close()
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	require.NoError(t, migrations.Up(t.Context(), db))
	_, err = pool.Exec(t.Context(), "CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL); INSERT INTO accounts VALUES (42, 100)")
	require.NoError(t, err)
	return url
}
