package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/slowlink"
)

func TestMain(m *testing.M) {
	slowlink.ServeIfAsked() // a relay runs this binary
	leaktest.Main(m)
}

// These counts do not depend on the machine.
var packetsOf = map[string]float64{
	"Redis lock, Acquire, Release": 2, "Redis lock, Locker.Hold": 2, "refused, Acquire": 1, "Redis write, redisguard Set": 1,
	"PostgreSQL lock, pgtoken Acquire, Release": 2, "PostgreSQL lock, the same, claimed": 2,
	"PostgreSQL write, Table.Update": 1, "PostgreSQL write, On.Exec": 1, "PostgreSQL transaction, Update": 3,
	"PostgreSQL transaction, Once": 3, "PostgreSQL transaction, Once with a result": 4,
}

// Each group is measured on real servers. Each operation checks its own effect.
func TestEverythingIsMeasured(t *testing.T) {
	t.Parallel()
	for _, g := range groups {
		if g.name == "renew" {
			continue // below, with fewer leases
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			contests := g.contests
			require.NoError(t, measure(t.Context(), newEnv(true), []string{g.name}, func(rows []row) error {
				c := contests[0]
				contests = contests[1:]
				require.Len(t, rows, len(c.settings)*(1+len(c.others)))
				for i, r := range rows {
					for _, col := range c.settings[i/(1+len(c.others))].fills {
						_, has := r.measured[col]
						require.True(t, has || r.contender == r.baseline, "%s: %s", r.contender, col.title)
						require.True(t, col.counted || !has || r.contender == r.baseline || r.ratios[col].median > 0, "%s: %s", r.contender, col.title)
					}
					if want, ok := packetsOf[r.contest+", "+r.contender]; ok && r.measured[packets] > 0 {
						require.InDelta(t, want, r.measured[packets], 0.05, r.contender)
					}
				}
				return nil
			}))
			require.Empty(t, contests)
		})
	}
}

// This test is not parallel: the memory of other tests would be counted.
func TestLeasesAreKeptAlive(t *testing.T) {
	e, c := newEnv(true), keepingAlive(500)
	defer func() { require.NoError(t, e.close()) }()
	c.settings[0].block = 10 * time.Second // each is renewed in time, also on a busy machine
	rows, err := c.measure(t.Context(), e)
	require.NoError(t, err)
	require.Greater(t, rows[0].measured[memory], 2048.0, "the stack of a goroutine")
	require.Less(t, rows[1].ratios[memory].median, 1.0)
	require.Less(t, rows[1].measured[packets], rows[0].measured[packets]/2, "one packet per renewal")
}

// started returns a client of a server that ends with the test.
func started(t *testing.T, kind serverKind, via route) *client {
	t.Helper()
	e := newEnv(true)
	c := &client{env: e, server: e.started(t.Context(), kind), setting: setting{workers: 4, clients: 1, via: via}}
	t.Cleanup(func() { require.NoError(t, errors.Join(c.close(), e.close())) })
	return c
}

func TestAHeldLockIsRefusedAndThenHandedOver(t *testing.T) {
	t.Parallel()
	for kind, libraries := range map[serverKind]map[string]library{
		redisServer: {
			"raw": rawLock, "issuer": issued(openRedistoken), "Locker": leased(openRedistoken),
			"redislock": openRedislock, "redsync": openRedsync, "rueidislock": openRueidislock,
		},
		postgresServer: {"issuer": issued(openPgtoken(false)), "claiming": issued(openPgtoken(true)), "Locker": leased(openPgtoken(false))},
	} {
		c := started(t, kind, direct)
		for name, open := range libraries {
			waits, tries := name != "raw" && name != "issuer" && name != "claiming", name != "Locker"
			lock := open(t.Context(), c)
			release, err := lock(t.Context(), "account/42", true)
			require.NoError(t, err, name)
			if tries {
				_, err = open(t.Context(), c)(t.Context(), "account/42", false)
				require.ErrorIs(t, err, errHeld, name)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = lock(ended, "account/42", true)
			require.Error(t, err, name)
			granted := make(chan error, 1)
			go func() {
				if !waits {
					granted <- nil
					return
				}
				release, err := lock(t.Context(), "account/42", true)
				if err == nil {
					err = release(t.Context())
				}
				granted <- err
			}()
			require.NoError(t, release(t.Context()), name)
			require.NoError(t, <-granted, name)
		}
	}
}

// Each write is one operation, and its row changes.
func TestAWriteWrites(t *testing.T) {
	t.Parallel()
	c := started(t, postgresServer, direct)
	c.workers = 1
	pool := must(pgxpool.New(t.Context(), c.server.url))
	defer pool.Close()
	for _, contest := range writeContests {
		for _, contender := range append(contest.others, contest.baseline) {
			const sql = "SELECT (SELECT sum(balance) FROM accounts) + (SELECT sum(balance) FROM fenced) + " +
				"(SELECT count(*) FROM fencepost.units) + (SELECT coalesce(sum(number), 0) FROM fencepost.marks WHERE resource LIKE 'minted/%')"
			var before, after float64
			require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&before))
			block := contender.open(t.Context(), c)
			_, err := block(t.Context(), 0)
			require.NoError(t, err, contender.name)
			require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&after))
			require.NotEqual(t, before, after, contender.name)
		}
	}
}

func TestTheLinkTakesAQuarterOfAMillisecond(t *testing.T) {
	t.Parallel()
	client := started(t, redisServer, linked).redis()
	require.NoError(t, client.Ping(t.Context()).Err())
	for range 100 {
		start := time.Now()
		require.NoError(t, client.Ping(t.Context()).Err())
		require.GreaterOrEqual(t, time.Since(start), 2*slowlink.OneWay)
	}
	large := strings.Repeat("a large value", 1<<20) // in many chunks
	require.NoError(t, client.Set(t.Context(), "large", large, 0).Err())
	text, err := client.Get(t.Context(), "large").Result()
	require.NoError(t, err)
	require.True(t, large == text, "all data arrives unchanged")
}

func TestTheCPUOfAServerGrowsWithItsWork(t *testing.T) {
	t.Parallel()
	ofPostgres, ofRedis := started(t, postgresServer, direct), started(t, redisServer, direct)
	pool, client := ofPostgres.postgres(t.Context(), 0), ofRedis.redis()
	require.NoError(t, pool.Ping(t.Context()))
	before := []time.Duration{ofPostgres.server.cpu(), ofRedis.server.cpu()}
	must(pool.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 1000000)"))
	check(client.Eval(t.Context(), "for i = 1, 1000000 do redis.sha1hex('') end return 1", nil).Err())
	require.Greater(t, ofPostgres.server.cpu()-before[0], time.Millisecond)
	require.Greater(t, ofRedis.server.cpu()-before[1], time.Millisecond)
}

func TestTheServersEndHoweverTheRunDoes(t *testing.T) {
	t.Parallel()
	require.EqualError(t, measure(t.Context(), newEnv(true), []string{"redis", "locks"}, nil), `no group "locks"`)
	e, stopped, broken := newEnv(true), 0, errors.New("it does not end")
	e.later(func() error { stopped++; return broken })
	err := measure(t.Context(), e, []string{"redis"}, func([]row) error { return io.ErrShortWrite })
	require.ErrorIs(t, err, io.ErrShortWrite)
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ended by signal"))
	require.ErrorContains(t, measure(ctx, e, []string{"redis"}, nil), "ended by signal")
	require.Equal(t, 2, stopped)
}
