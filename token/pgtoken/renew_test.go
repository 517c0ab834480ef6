package pgtoken_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

func granted(t *testing.T, iss token.Issuer, resource string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, "a", long)
	require.NoError(t, err)
	return grant.Token
}

func TestManyRenewalsInOnePacket(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	var leases []token.Renewal
	for i := range 100 {
		leases = append(leases, token.Renewal{Token: granted(t, &pgtoken.Issuer{DB: pool, Schema: schema}, fmt.Sprintf("{\"'\\,} %d", i)), TTL: long})
	}
	leases[7].Token.Holder = "b"
	for mode, packets := range packetsOfACall {
		t.Run(mode.String(), func(t *testing.T) {
			var sent atomic.Int64
			iss := &pgtoken.Issuer{DB: counting(t, mode, &sent), Schema: schema}
			batch := slices.Clone(leases)
			iss.RenewAll(t.Context(), batch) // prepares the statements
			before, asked := sent.Load(), time.Now()
			iss.RenewAll(t.Context(), batch)
			require.Equal(t, packets, sent.Load()-before)
			for i, r := range batch {
				if i == 7 {
					require.ErrorIs(t, r.Err, token.ErrLost)
					continue
				}
				require.NoError(t, r.Err)
				require.False(t, r.Until.Before(asked.Add(long)))
				require.LessOrEqual(t, time.Until(r.Until), long)
			}
		})
	}
}

func TestRenewalsDoNotWaitForOneThatIsLocked(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	batch := []token.Renewal{
		{Token: granted(t, iss, "account/1"), TTL: long},
		{Token: granted(t, iss, resource), TTL: long},
		{Token: granted(t, iss, "account/3"), TTL: long},
		{Token: token.Token{Resource: "account/4"}, TTL: long},
	}
	const ends = "SELECT max(expires_at) FROM %s WHERE resource <> $1"
	before := pgtest.Query[time.Time](t, pool, fmt.Sprintf(ends, pgtest.In(schema, "leases")), resource)
	unlock := lockLease(t, pool, schema)
	done := make(chan struct{})
	go func() {
		defer close(done)
		iss.RenewAll(t.Context(), batch)
	}()
	pgtest.AwaitLockWaiters(t, pool, schema, 1) // the locked lease, by a statement of its own
	require.True(t, pgtest.Query[time.Time](t, pool, fmt.Sprintf(ends, pgtest.In(schema, "leases")), resource).After(before), "the others are renewed")
	unlock()
	<-done
	for _, r := range batch[:3] {
		require.NoError(t, r.Err)
		require.NotZero(t, r.Until)
	}
	require.ErrorIs(t, batch[3].Err, token.ErrInvalid)
}

// Two batches with the same leases in different orders never deadlock.
func TestRenewalsOfTheSameLeasesInAnyOrder(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	var forth, back []token.Renewal
	for i := range 50 {
		r := token.Renewal{Token: granted(t, iss, fmt.Sprint("account/", i)), TTL: long}
		forth, back = append(forth, r), append([]token.Renewal{r}, back...)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			iss.RenewAll(t.Context(), back)
		}
	}()
	for range 20 {
		iss.RenewAll(t.Context(), forth)
		for _, r := range forth {
			require.NoError(t, r.Err)
		}
	}
	<-done
	for _, r := range back {
		require.NoError(t, r.Err)
	}
}

// full returns the pool of an application, which is full until empty: a transaction uses
// each connection, and one more caller waits. sessions counts its sessions on the server.
func full(t *testing.T, conns int32) (pool *pgxpool.Pool, empty func(), sessions func() int) {
	t.Helper()
	name := fmt.Sprint("full ", rand.Int64())
	pool = pgtest.Connect(t, func(config *pgxpool.Config) {
		config.MaxConns, config.ConnConfig.RuntimeParams["application_name"] = conns, name
	})
	var commits []func()
	for range conns {
		commits = append(commits, begin(t, pool, "SELECT"))
	}
	next := pgtest.Later(t, func() error { return pool.Ping(t.Context()) })
	other := pgtest.Connect(t, pgtest.One)
	empty = func() {
		t.Helper()
		for _, commit := range commits {
			commit()
		}
		require.NoError(t, next())
	}
	return pool, empty, func() int {
		return pgtest.Query[int](t, other, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name)
	}
}

// hazard L16
func TestRenewalsDoNotWaitForAFullPool(t *testing.T) {
	t.Parallel()
	for _, conns := range []int32{1, 4} {
		t.Run(fmt.Sprint("of ", conns), func(t *testing.T) {
			t.Parallel()
			direct, schema := testenv.Postgres(t)
			pool, empty, sessions := full(t, conns)
			iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
			batch := []token.Renewal{{Token: granted(t, &pgtoken.Issuer{DB: direct, Schema: schema}, "account/1"), TTL: long}}
			renew := func() {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				iss.RenewAll(ctx, batch)
				require.NoError(t, batch[0].Err)
				_, err := iss.Renew(ctx, batch[0].Token, long)
				require.NoError(t, err)
			}
			for range 3 {
				renew()
			}
			require.Equal(t, int(conns)+1, sessions(), "one connection for all renewals")

			locked := token.Renewal{Token: granted(t, &pgtoken.Issuer{DB: direct, Schema: schema}, resource), TTL: long}
			unlock := lockLease(t, direct, schema)
			done := pgtest.Later(t, func() error {
				both := append(slices.Clone(batch), locked)
				iss.RenewAll(t.Context(), both)
				return errors.Join(both[0].Err, both[1].Err)
			})
			pgtest.AwaitLockWaiters(t, direct, schema, 1)
			renew()
			require.Equal(t, int(conns)+2, sessions(), "another one, for the lease whose row is locked")
			unlock()
			require.NoError(t, done())

			empty()
			require.NoError(t, iss.Close())
			pgtest.Await(t, func() bool { return sessions() == int(conns) })
			renew() // over the pool
			require.Equal(t, int(conns), sessions())
		})
	}
}

// hazard L16
func TestLeasesOfAProgramWhosePoolIsFull(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	for _, conns := range []int32{1, 4} {
		t.Run(fmt.Sprint("of ", conns), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Connect(t, func(config *pgxpool.Config) { config.MaxConns = conns })
			iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
			renewed := make(chan struct{}, 100)
			locker := lock.Locker{Issuer: iss, TTL: 6 * time.Second, DangerouslyWithoutClaim: true, Hooks: lock.Hooks{
				Renewed: func(context.Context, token.Token, time.Duration) { renewed <- struct{}{} },
			}}
			require.NoError(t, locker.Hold(t.Context(), fmt.Sprint(conns), func(ctx context.Context) error {
				for range conns {
					defer begin(t, pool, "SELECT")()
				}
				for range 3 { // the third is after the end of a lease that was not renewed
					select {
					case <-renewed:
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
				return ctx.Err()
			}))
		})
	}
}

// hazard L16
func TestConnectionForRenewals(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	tok := granted(t, &pgtoken.Issuer{DB: direct, Schema: schema}, resource)
	t.Run("closes after the idle timeout, and the next renewal opens another", func(t *testing.T) {
		t.Parallel()
		pool, empty, sessions := full(t, 1)
		iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
		iss.SetIdleTimeout(time.Millisecond) // less than a connect takes
		for range 2 {
			_, err := iss.Renew(t.Context(), tok, long)
			require.NoError(t, err)
			pgtest.Await(t, func() bool { return sessions() == 1 })
		}
		empty()
	})
	for name, connect := range map[string]func(ctx context.Context) error{
		"is refused":                func(context.Context) error { return errors.New("too many clients") },
		"gets no reply":             func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"waits in a session pooler": nil,
	} {
		t.Run("if it "+name+", the renewal waits for the pool too", func(t *testing.T) {
			t.Parallel()
			url := testenv.PostgresURL(t)
			if connect == nil {
				url = testenv.OwnPgBouncer(t, "", "pool_mode = session", "default_pool_size = 1")
			}
			second := make(chan struct{})
			var connects atomic.Int64
			pool := pgtest.Pool(t, url, func(config *pgxpool.Config) {
				pgtest.One(config)
				config.BeforeConnect = func(ctx context.Context, _ *pgx.ConnConfig) error {
					if connects.Add(1) == 1 {
						return nil
					}
					close(second)
					if connect == nil {
						return nil
					}
					return connect(ctx)
				}
			})
			commit := begin(t, pool, "SELECT")
			iss := closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
			renewal := pgtest.Later(t, func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // only a hang exceeds it
				defer cancel()
				_, err := iss.Renew(ctx, tok, long)
				return err
			})
			<-second
			commit()
			require.NoError(t, renewal())
		})
	}
}
