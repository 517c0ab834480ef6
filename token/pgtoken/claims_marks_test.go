package pgtoken_test

import (
	"context"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// balance is the balance of account/42, which is 100 at first.
type balance struct {
	claim func(ctx context.Context, tok token.Token) error
	read  func() int
	write func(ctx context.Context, to int) error
}

// hazard G32
func TestAClaimOfOtherMarksTakesEffect(t *testing.T) {
	t.Parallel()
	for name, marked := range map[string]func(t *testing.T) (*pgxpool.Pool, string, balance){
		"of the row": func(t *testing.T) (*pgxpool.Pool, string, balance) {
			pool, schema := testenv.Postgres(t)
			return pool, schema, rowBalance(t, pool, schema)
		},
		"in Redis": func(t *testing.T) (*pgxpool.Pool, string, balance) {
			pool, schema := testenv.Postgres(t)
			return pool, schema, redisBalance(t)
		},
		"in another schema": func(t *testing.T) (*pgxpool.Pool, string, balance) {
			pool, schema := testenv.Postgres(t)
			_, other := testenv.Postgres(t)
			return pool, schema, tableBalance(t, pool, other)
		},
		"in another database": func(t *testing.T) (*pgxpool.Pool, string, balance) {
			pool, other := migratedDatabases(t)
			return pool, "fencepost", tableBalance(t, other, "fencepost")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, schema, b := marked(t)
			iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema, Claims: true})
			sleeper, successor := overtaken(t, pool, schema, &lock.Locker{Issuer: iss, TTL: long, Claim: b.claim}, b)
			require.ErrorIs(t, sleeper, guard.ErrStale)
			require.NoError(t, successor)
			require.Equal(t, 101, b.read())
			t.Run("the twin leaves the claim to the grant, and loses an acknowledged update", func(t *testing.T) {
				sleeper, successor := overtaken(t, pool, schema, &lock.Locker{Issuer: iss, TTL: long, DangerouslyWithoutClaim: true}, b)
				require.NoError(t, sleeper)
				require.NoError(t, successor)
				require.Equal(t, 102, b.read(), "101 + 10 + 1 were acknowledged")
			})
		})
	}
}

// overtaken is a holder that reads and is paused. It continues after its successor has
// read and before the successor writes: the paused holder adds 10, the successor 1.
func overtaken(t *testing.T, pool *pgxpool.Pool, schema string, locker *lock.Locker, b balance) (sleeper, successor error) {
	t.Helper()
	first, err := locker.Acquire(t.Context(), resource)
	require.NoError(t, err)
	seen := b.read()
	pgtest.Exec(t, pool, "UPDATE "+pgtest.In(schema, "leases")+" SET expires_at = '-infinity'")
	second, err := locker.Acquire(t.Context(), resource)
	require.NoError(t, err)
	seenNext := b.read()
	sleeper = b.write(first.Context(), seen+10)
	successor = b.write(second.Context(), seenNext+1)
	require.NoError(t, second.Release(t.Context()))
	require.ErrorIs(t, first.Release(t.Context()), token.ErrLost)
	return sleeper, successor
}

// rowBalance is a balance in a row that carries its own mark.
func rowBalance(t *testing.T, pool *pgxpool.Pool, schema string) balance {
	accounts := accounts(t, pool, schema)
	pgtest.Exec(t, pool, "SELECT "+pgtest.In(schema, "add_mark_columns")+"($1::text::regclass)", accounts.Sanitize())
	table := &rowguard.Table{Guard: &sqlguard.Guard{DB: pool, Schema: schema}, Name: accounts, Prefix: "account/"}
	return balance{
		claim: table.Claim,
		read:  func() int { return pgtest.Query[int](t, pool, "SELECT balance FROM "+accounts.Sanitize()) },
		write: func(ctx context.Context, to int) error {
			return table.Update(ctx, 42, rowguard.Set{"balance": to})
		},
	}
}

// tableBalance is a balance in a row whose mark is in the schema's table of marks.
func tableBalance(t *testing.T, pool *pgxpool.Pool, schema string) balance {
	accounts := accounts(t, pool, schema).Sanitize()
	g := &sqlguard.Guard{DB: pool, Schema: schema}
	return balance{
		claim: g.Admit,
		read:  func() int { return pgtest.Query[int](t, pool, "SELECT balance FROM "+accounts) },
		write: func(ctx context.Context, to int) error {
			_, err := g.On(resource).Exec(ctx, "UPDATE "+accounts+" SET balance = $1", to)
			return err
		},
	}
}

func redisBalance(t *testing.T) balance {
	client, prefix := testenv.Redis(t)
	key := prefix + "balance"
	require.NoError(t, client.Set(t.Context(), key, 100, 0).Err())
	g := &redisguard.Guard{Client: client, MarkKey: func(resource string) string { return prefix + redisguard.MarkKey(resource) }}
	return balance{
		claim: g.Admit,
		read: func() int {
			left, err := client.Get(t.Context(), key).Int()
			require.NoError(t, err)
			return left
		},
		write: func(ctx context.Context, to int) error { return g.Set(ctx, resource, key, to, 0) },
	}
}

// accounts creates a table with one account in the schema.
func accounts(t *testing.T, pool *pgxpool.Pool, schema string) pgx.Identifier {
	t.Helper()
	name := pgx.Identifier{schema, "accounts"}
	pgtest.Exec(t, pool, "CREATE TABLE "+name.Sanitize()+" (id bigint PRIMARY KEY, balance bigint NOT NULL)")
	pgtest.Exec(t, pool, "INSERT INTO "+name.Sanitize()+" VALUES (42, 100)")
	return name
}

// migratedDatabases returns two databases of the test's own, with the default schema.
func migratedDatabases(t *testing.T) (one, other *pgxpool.Pool) {
	t.Helper()
	// On a separate server: dropping a database waits for every session of the server,
	// and other tests leave sessions that cannot reply.
	first, err := url.Parse(testenv.OwnPostgres(t).URL())
	require.NoError(t, err)
	testenv.Migrate(t, first.String())
	one = pgtest.Pool(t, first.String(), nil)
	_, err = one.Exec(t.Context(), "CREATE DATABASE other")
	require.NoError(t, err)
	testenv.Migrate(t, first.JoinPath("../other").String())
	return one, pgtest.Pool(t, first.JoinPath("../other").String(), nil)
}

// A guard whose marks the grant has raised sends nothing. Any other guard sends its
// claim.
func TestAClaimOfTheGrantsOwnMarksSendsNothing(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	_, other := testenv.Postgres(t)
	var sent atomic.Int64
	pool := counting(t, pgx.QueryExecModeCacheStatement, &sent)
	iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema, Claims: true})
	second := counting(t, pgx.QueryExecModeCacheStatement, &sent)
	for name, c := range map[string]struct {
		claim   func(ctx context.Context, tok token.Token) error
		packets int64
	}{
		"none":               {nil, 2},
		"same pool, schema":  {(&sqlguard.Guard{DB: pool, Schema: schema}).Admit, 2},
		"another schema":     {(&sqlguard.Guard{DB: pool, Schema: other}).Admit, 3},
		"another pool of it": {(&sqlguard.Guard{DB: second, Schema: schema}).Admit, 3},
	} {
		t.Run(name, func(t *testing.T) {
			locker := &lock.Locker{Issuer: iss, TTL: long, NoWait: true, Claim: c.claim, DangerouslyWithoutClaim: c.claim == nil}
			hold := func() {
				require.NoError(t, locker.Hold(t.Context(), resource, func(ctx context.Context) error {
					tok, err := token.FromContext(ctx, resource)
					require.Equal(t, tok, mark(t, second, schema))
					return err
				}))
			}
			hold() // prepares the statements
			hold()
			before := sent.Load()
			require.NoError(t, locker.Hold(t.Context(), resource, func(context.Context) error { return nil }))
			require.Equal(t, c.packets, sent.Load()-before)
		})
	}
	t.Run("outside the claim a guard judges again", func(t *testing.T) {
		g := &sqlguard.Guard{DB: pool, Schema: schema}
		locker := &lock.Locker{Issuer: iss, TTL: long, NoWait: true, Claim: g.Admit}
		require.ErrorIs(t, locker.Hold(t.Context(), resource, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			require.NoError(t, err)
			newer := token.Token{Resource: resource, Number: tok.Number + 1, Holder: "newer"}
			require.NoError(t, g.Admit(t.Context(), newer))
			return g.Admit(ctx, tok)
		}), guard.ErrStale)
	})
}
