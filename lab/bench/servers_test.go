package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// started returns servers that end with the test.
func started(t *testing.T) *env {
	t.Helper()
	e := &env{pace: quick}
	e.pace.kept = keeping{500, 15 * time.Second} // each is renewed in time, also on a busy machine
	t.Cleanup(func() { require.NoError(t, e.close()) })
	return e
}

// program returns a client of the servers that ends with the test.
func program(t *testing.T, e *env, via route) *client {
	t.Helper()
	c := &client{env: e, route: via, workers: 1, sent: new(counter)}
	t.Cleanup(c.close)
	return c
}

// Every contest and figure is measured on real servers, in the shortest time. Each
// operation checks its own effect.
func TestEverythingIsMeasured(t *testing.T) {
	t.Parallel()
	for _, g := range groups() {
		if g.name != "renew" {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				checkCounts(t, measured(t, g))
			})
		}
	}
}

// This test is not parallel: allocations of other tests would be counted.
func TestLeasesAreKeptAlive(t *testing.T) {
	all := groups()
	rows := measured(t, all[slices.IndexFunc(all, func(g group) bool { return g.name == "renew" })])
	of := map[string]float64{}
	for _, r := range rows {
		of[strings.TrimPrefix(r.name, "500 leases kept alive, ")] = r.cells[overLoopback][0].median
	}
	require.Greater(t, of["one by one: bytes for the renewal of each"], 2048.0, "the stack of a goroutine")
	require.Greater(t, of["one by one: packets/s"], 2*of["one renewer: packets/s"], "one packet per renewal")
}

// measured are the rows of a group, each of which has a figure.
func measured(t *testing.T, g group) (all []row) {
	t.Helper()
	e := started(t)
	for _, m := range g.all {
		rows, err := m.measure(t.Context(), e)
		require.NoError(t, err)
		require.NotEmpty(t, rows)
		all = append(all, rows...)
	}
	for _, r := range all {
		cells := 0
		for col, cell := range r.cells {
			for _, v := range cell {
				cells++
				// The bytes of a few leases are fewer than those of a connection's buffers.
				isSmall := column(col) == packets || column(col) == allocations || strings.Contains(r.name, "bytes")
				if !isSmall {
					require.Positive(t, v.median, r.name)
				}
			}
		}
		require.Positive(t, cells, r.name)
	}
	return all
}

// checkCounts checks the values that do not depend on the machine.
func checkCounts(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		if want, ok := map[string]float64{
			"Redis lock, Acquire, Release": 2, "Redis lock, Locker.Hold": 2, "refused, Acquire": 1, "Redis write, redisguard Set": 1,
			"PostgreSQL lock, pgtoken Acquire, Release": 2, "PostgreSQL lock, the same, claimed": 2,
			"PostgreSQL write, Table.Update": 1, "PostgreSQL write, On.Exec": 1, "PostgreSQL transaction, Update": 3,
			"PostgreSQL unit, Once": 3, "PostgreSQL unit, Once with a result": 4, "Redis unit, Once": 1,
			"HTTP request, httpguard": 1,
		}[r.name]; ok {
			require.InDelta(t, want, r.cells[packets][0].median, 0.05, r.name)
		}
	}
}

func TestTheLinkTakesAQuarterOfAMillisecond(t *testing.T) {
	t.Parallel()
	e := started(t)
	client := program(t, e, linked).redis()
	require.NoError(t, client.Ping(t.Context()).Err())
	for range 100 {
		start := time.Now()
		require.NoError(t, client.Ping(t.Context()).Err())
		require.GreaterOrEqual(t, time.Since(start), 2*oneWay)
	}
	large := strings.Repeat("a large value", 1<<20) // in many chunks
	require.NoError(t, client.Set(t.Context(), "large", large, 0).Err())
	text, err := client.Get(t.Context(), "large").Result()
	require.NoError(t, err)
	require.True(t, large == text, "all data arrives unchanged")
}

func TestTheCPUOfAServerGrowsWithItsWork(t *testing.T) {
	t.Parallel()
	e := started(t)
	c := program(t, e, direct)
	pool, client := c.postgres(t.Context(), writeDatabase, 2), c.redis()
	for name, of := range map[string]struct {
		server serverKind
		work   func() error
	}{
		"PostgreSQL": {postgresServer, func() error {
			_, err := pool.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 1000000)")
			return err
		}},
		"Redis": {redisServer, func() error {
			return client.Eval(t.Context(), "for i = 1, 1000000 do redis.sha1hex('') end return 1", nil).Err()
		}},
	} {
		used := e.cpu(of.server)
		before := used(t.Context())
		require.NoError(t, of.work())
		require.Greater(t, used(t.Context())-before, time.Millisecond, name)
	}
}

// libraries are all locks that can wait.
func libraries() map[string]library {
	return map[string]library{
		"Locker": of(openRedistoken, leased), "in memory": of(func(context.Context, *client) token.Issuer { return &memtoken.Issuer{} }, leased),
		"pgtoken":   of(openPgtoken, leased),
		"redislock": openRedislock, "redsync": openRedsync, "rueidislock": openRueidislock,
	}
}

func TestAHeldLockIsRefusedAndThenHandedOver(t *testing.T) {
	t.Parallel()
	e := started(t)
	all := libraries()
	all["raw"] = rawLock // it cannot wait
	for name, open := range all {
		t.Run(name, func(t *testing.T) {
			c := program(t, e, direct)
			c.workers = 4
			l := open(t.Context(), c)
			release, err := l.wait(t.Context(), "account/42")
			require.NoError(t, err)
			_, err = l.try(t.Context(), "account/42")
			require.ErrorIs(t, err, errHeld)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = l.wait(ended, "account/42")
			require.Error(t, err, "the wait ends with its context")
			var waiter sync.WaitGroup
			var granted error
			if name != "raw" {
				waiter.Go(func() {
					var release unlock
					if release, granted = l.wait(t.Context(), "account/42"); granted == nil {
						granted = release(t.Context())
					}
				})
			}
			require.NoError(t, release(t.Context()))
			waiter.Wait()
			require.NoError(t, granted)
			release, err = l.try(t.Context(), "account/42")
			require.NoError(t, err)
			require.NoError(t, release(t.Context()))
		})
	}
}

func TestCommandsAndPacketsAreCounted(t *testing.T) {
	t.Parallel()
	c := program(t, started(t), direct)
	client := c.redis()
	three := func() error {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Ping(t.Context())
			p.Set(t.Context(), "key", "*1\r\n$4\r\nPING\r\n", 0)
			p.Ping(t.Context())
			return nil
		})
		return err
	}
	// A new connection sends commands of its own. A pipeline may have a separate connection.
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, three())
	large := strings.Repeat("*3\r\n$4\r\n", 100_000) // resembles commands, and takes many packets
	for name, of := range map[string]struct {
		do                func() error
		packets, commands int64
	}{
		"one command":     {func() error { return client.Ping(t.Context()).Err() }, 1, 1},
		"an empty string": {func() error { return client.Set(t.Context(), "key", "", 0).Err() }, 1, 1},
		"a script, whose calls are not counted": {func() error {
			return client.Eval(t.Context(), "redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) return 1", []string{"key"}).Err()
		}, 1, 1},
		"three in a pipeline": {three, 1, 3},
		"a large command":     {func() error { return client.Set(t.Context(), "key", large, 0).Err() }, 0, 1},
	} {
		packets, commands := c.sent.packets.Load(), c.sent.commands.Load()
		require.NoError(t, of.do(), name)
		require.Equal(t, of.commands, c.sent.commands.Load()-commands, name)
		if of.packets > 0 {
			require.Equal(t, of.packets, c.sent.packets.Load()-packets, name)
		}
	}
}
