package failures_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

const (
	// envUnits sets how many units are applied on each engine.
	envUnits    = "FENCEPOST_UNITS"
	faultEvery  = 100 // units
	unitWorkers = 6
)

// effects is a server with the effects of units, and its guard. No key is unique: a unit
// that is applied twice has two effects.
type effects struct {
	mint       func(ctx context.Context, resource, holder string) (context.Context, error)
	once, twin apply  // with Once, and without it
	restart    func() // kills the server and starts it again; nil for a shared one
	count      func() (all, units, sum int)
}

// apply adds an effect of a unit with that value, which is its result.
type apply func(ctx context.Context, resource string, unit, value int) (result string, err error)

func unitOf(n int) guard.Unit { return guard.Unit{Key: fmt.Sprint("unit/", n)} }

// A unit is repeated under a new token after every error, and under a stale one after it
// was acknowledged. Meanwhile connections break at the write, before or after it was sent,
// and the servers of PostgreSQL and Redis are killed.
//
// hazard G39
func TestStressAUnitIsAppliedOnceThoughServersDie(t *testing.T) {
	for name, start := range map[string]func(*testing.T) effects{
		"PostgreSQL": effectsOnPostgres, "MariaDB": effectsOnMariaDB, "Redis": effectsOnRedis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, total := start(t), testenv.Rounds(t, envUnits, 1000)
			reported := e.run(t, 0, total, e.twice(t))
			all, units, sum := e.count()
			require.Equal(t, total, units)
			require.Equal(t, total, all, "a unit was applied twice")
			require.Equal(t, reported, sum, "a result is not that of the effect")
		})
		t.Run(name+", the twin without Once doubles", func(t *testing.T) {
			t.Parallel()
			e := start(t)
			for all, units := 0, 0; all == units; all, units, _ = e.count() {
				e.run(t, units, faultEvery, e.twin)
			}
		})
	}
}

// twice applies a unit, makes its token stale, and repeats it.
func (e effects) twice(t *testing.T) apply {
	return func(ctx context.Context, resource string, unit, value int) (string, error) {
		result, err := e.once(ctx, resource, unit, value)
		if err == nil {
			_, err = e.mint(ctx, resource, fmt.Sprint("successor/", unit))
		}
		if err != nil {
			return "", err
		}
		again, err := e.once(ctx, resource, unit, -1)
		if err == nil && again != result {
			t.Errorf("unit %d: its result was %s, and is %s", unit, result, again)
		}
		return again, err
	}
}

// run applies units, and returns the sum of their results.
func (e effects) run(t *testing.T, first, units int, do apply) int {
	t.Helper()
	var sum atomic.Int64
	done := make(chan struct{}, units)
	var workers sync.WaitGroup
	for w := range unitWorkers {
		workers.Go(func() {
			for unit := first + w; unit < first+units; unit += unitWorkers {
				sum.Add(e.insist(t.Context(), unit, do))
				done <- struct{}{}
			}
		})
	}
	for n := range units {
		if <-done; n%faultEvery == faultEvery/2 && e.restart != nil {
			e.restart()
		}
	}
	workers.Wait()
	return int(sum.Load())
}

// insist tries a unit until there is no error, and returns its result. Other workers mint
// for the same resource, so a token may be stale before it is used.
func (e effects) insist(ctx context.Context, unit int, do apply) (value int64) {
	resource := fmt.Sprint("batch/", unit%5)
	for try := 0; ctx.Err() == nil; try++ {
		minted, err := e.mint(ctx, resource, fmt.Sprintf("worker/%d.%d", unit, try))
		if err != nil {
			time.Sleep(time.Millisecond) // the server may be starting
			continue
		}
		if result, err := do(minted, resource, unit, rand.IntN(1e9)); err == nil {
			value, _ = strconv.ParseInt(result, 10, 64)
			break
		}
	}
	return value
}

const countEffects = "SELECT count(*), count(DISTINCT unit), coalesce(sum(value), 0) FROM effects"

// openEffects makes the table, over connections that are not cut.
func openEffects(t *testing.T, driver, url string) (db *sql.DB, count func() (all, units, sum int)) {
	t.Helper()
	db, err := sql.Open(driver, url)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	db.SetMaxIdleConns(-1) // they die with the server
	_, err = db.ExecContext(t.Context(), "CREATE TABLE effects (unit BIGINT NOT NULL, value BIGINT NOT NULL)")
	require.NoError(t, err)
	return db, func() (all, units, sum int) {
		require.NoError(t, db.QueryRowContext(t.Context(), countEffects).Scan(&all, &units, &sum))
		return all, units, sum
	}
}

func effectsOnPostgres(t *testing.T) effects {
	t.Helper()
	server := testenv.OwnPostgres(t, settings...)
	testenv.Migrate(t, server.URL())
	clean, count := openEffects(t, "pgx", server.URL())
	// Without an incarnation the guard cannot settle a lost COMMIT.
	_, err := clean.ExecContext(t.Context(), "ALTER TABLE fencepost.incarnation SET LOGGED")
	require.NoError(t, err)
	config, err := pgxpool.ParseConfig(server.URL())
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.ConnConfig.DialFunc = cutting(commitOfPgx)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	g := &sqlguard.Guard{DB: pool}
	add := func(ctx context.Context, tx pgx.Tx, unit, value int) ([]byte, error) {
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", unit, value)
		return strconv.AppendInt(nil, int64(value), 10), err
	}
	return effects{
		mint: g.Mint, restart: server.Restart, count: count,
		once: func(ctx context.Context, resource string, unit, value int) (string, error) {
			result, err := g.Once(ctx, resource, unitOf(unit), func(tx pgx.Tx) ([]byte, error) { return add(ctx, tx, unit, value) })
			return string(result), err
		},
		twin: func(ctx context.Context, resource string, unit, value int) (string, error) {
			return "", g.Update(ctx, resource, func(tx pgx.Tx) error { _, err := add(ctx, tx, unit, value); return err })
		},
	}
}

func effectsOnMariaDB(t *testing.T) effects {
	t.Helper()
	dsn := testenv.MariaDB(t)
	clean, count := openEffects(t, "mysql", dsn)
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), clean))
	config, err := mysql.ParseDSN(dsn)
	require.NoError(t, err)
	dial := cutting("COMMIT")
	mysql.RegisterDialContext("cut", func(ctx context.Context, addr string) (net.Conn, error) { return dial(ctx, "tcp", addr) })
	config.Net, config.Logger = "cut", &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	g := &stdsql.Guard{DB: db, Dialect: stdsql.MySQL}
	add := func(ctx context.Context, tx *sql.Tx, unit, value int) ([]byte, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?, ?)", unit, value)
		return strconv.AppendInt(nil, int64(value), 10), err
	}
	return effects{
		mint: g.Mint, count: count,
		once: func(ctx context.Context, resource string, unit, value int) (string, error) {
			result, err := g.Once(ctx, resource, unitOf(unit), func(tx *sql.Tx) ([]byte, error) { return add(ctx, tx, unit, value) })
			return string(result), err
		},
		twin: func(ctx context.Context, resource string, unit, value int) (string, error) {
			return "", g.Update(ctx, resource, func(tx *sql.Tx) error { _, err := add(ctx, tx, unit, value); return err })
		},
	}
}

func effectsOnRedis(t *testing.T) effects {
	t.Helper()
	server := testenv.OwnRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: cutting("evalsha")})
	t.Cleanup(func() { client.Close() })
	g := &redisguard.Guard{Client: client}
	const add = "redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2]) return ARGV[2]"
	keys := []string{"effects"}
	return effects{
		mint: g.Mint, restart: server.Restart,
		once: func(ctx context.Context, resource string, unit, value int) (string, error) {
			result, err := g.Once(ctx, resource, unitOf(unit), add, keys, unit, value)
			return fmt.Sprint(result), err
		},
		twin: func(ctx context.Context, resource string, unit, value int) (string, error) {
			_, err := g.Eval(ctx, resource, add, keys, unit, value)
			return "", err
		},
		count: func() (all, units, sum int) {
			var list []int
			require.NoError(t, server.Client().LRange(t.Context(), keys[0], 0, -1).ScanSlice(&list))
			seen := map[int]bool{}
			for i := 0; i < len(list); i += 2 {
				seen[list[i]] = true
				sum += list[i+1]
			}
			return len(list) / 2, len(seen), sum
		},
	}
}
