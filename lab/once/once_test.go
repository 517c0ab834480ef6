// Package once_test tests that a unit of work is applied once, however its workers and its
// servers fail:
//
//	make units
//
// worker_test.go has the workers, which are processes, and the guards that they use;
// rig_test.go shares units out among them, kills and stops them; this file has the
// servers, their failures, and the judgement.
package once_test

import (
	"context"
	"database/sql"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

func TestMain(m *testing.M) {
	subprocess.Serve(map[string]func(*subprocess.Parent) error{"worker": work})
	leaktest.Main(m)
}

// envUnits sets how many units are applied on each engine.
const envUnits = "FENCEPOST_UNITS"

// engine is a kind of server.
type engine struct {
	open  func(url string) (store, error)
	start func(t *testing.T) *server
}

var engines map[string]engine

func init() {
	engines = map[string]engine{
		"PostgreSQL": {openPostgres, startPostgres}, "MariaDB": {openMariaDB, startMariaDB}, "Redis": {openRedis, startRedis},
	}
}

// server is a server with the effects of units.
type server struct {
	url     string
	restart func() // after kill -9; nil if the server is not restarted
	// disconnect ends all sessions of workers.
	disconnect func(ctx context.Context) error
	// effects returns for each unit with effects how many it has, and the result of the
	// last one.
	effects func(ctx context.Context) (map[int]int, map[int]string)
}

const (
	terminateAll = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
	allEffects   = "SELECT unit, id FROM effects"
)

// collect counts the effects of each unit. The result of a unit is the id of an effect.
func collect(t *testing.T, rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
},
) (counts map[int]int, results map[int]string) {
	t.Helper()
	counts, results = map[int]int{}, map[int]string{}
	for rows.Next() {
		var unit, id int
		require.NoError(t, rows.Scan(&unit, &id))
		counts[unit]++
		results[unit] = strconv.Itoa(id)
	}
	require.NoError(t, rows.Err())
	return counts, results
}

func startPostgres(t *testing.T) *server {
	t.Helper()
	own := testenv.OwnPostgres(t, "fsync=off") // a killed server loses nothing that it has written
	testenv.Migrate(t, own.URL())
	pool, err := pgxpool.New(t.Context(), own.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = pool.Exec(t.Context(), "CREATE TABLE effects (id bigserial, unit bigint NOT NULL); CREATE TABLE recorded (unit bigint PRIMARY KEY)")
	require.NoError(t, err)
	return &server{
		url: own.URL(),
		restart: func() {
			own.Restart()
			pool.Reset()
		},
		disconnect: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, terminateAll)
			return err
		},
		effects: func(ctx context.Context) (map[int]int, map[int]string) {
			pool.Reset()
			rows, err := pool.Query(ctx, allEffects)
			require.NoError(t, err)
			return collect(t, rows)
		},
	}
}

func startMariaDB(t *testing.T) *server {
	t.Helper()
	config, err := mysql.ParseDSN(testenv.OwnMariaDB(t))
	require.NoError(t, err)
	admin, err := sql.Open("mysql", config.FormatDSN())
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE units")
	require.NoError(t, err)
	config.DBName = "units"
	dsn := config.FormatDSN()
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), db))
	for _, text := range []string{
		"CREATE TABLE effects (id BIGINT PRIMARY KEY AUTO_INCREMENT, unit BIGINT NOT NULL)", "CREATE TABLE recorded (unit BIGINT PRIMARY KEY)",
	} {
		_, err = db.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	return &server{
		url: dsn,
		disconnect: func(ctx context.Context) error {
			rows, err := db.QueryContext(ctx, "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db IS NOT NULL")
			require.NoError(t, err)
			var ids []int
			for rows.Next() {
				var id int
				require.NoError(t, rows.Scan(&id))
				ids = append(ids, id)
			}
			require.NoError(t, rows.Close())
			for _, id := range ids {
				_, _ = db.ExecContext(ctx, "KILL "+strconv.Itoa(id)) // it may have ended
			}
			return nil
		},
		effects: func(ctx context.Context) (map[int]int, map[int]string) {
			rows, err := db.QueryContext(ctx, allEffects)
			require.NoError(t, err)
			defer rows.Close()
			return collect(t, rows)
		},
	}
}

func startRedis(t *testing.T) *server {
	t.Helper()
	own := testenv.OwnRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	client := redis.NewClient(&redis.Options{Addr: own.Addr()})
	t.Cleanup(func() { client.Close() })
	return &server{
		url: own.Addr(), restart: own.Restart,
		disconnect: func(ctx context.Context) error { return client.ClientKillByFilter(ctx, "TYPE", "normal").Err() },
		effects: func(ctx context.Context) (map[int]int, map[int]string) {
			all, err := client.HGetAll(ctx, "effects").Result()
			require.NoError(t, err)
			counts, results := map[int]int{}, map[int]string{}
			for name, times := range all {
				unit, err := strconv.Atoi(name)
				require.NoError(t, err)
				counts[unit], err = strconv.Atoi(times)
				require.NoError(t, err)
				results[unit] = "1" // of the first
			}
			return counts, results
		},
	}
}

// hazard G39
func TestStressOnce(t *testing.T) {
	for name := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, name, once)
			r.run(testenv.Rounds(t, envUnits, 5000))
			doubled, lost := r.judge()
			require.Zero(t, doubled, "units that were applied twice")
			require.Zero(t, lost, "units that were not applied, and their worker got no error")
			require.Zero(t, r.differ, "results that are not the first one")
		})
		t.Run(name+", the twin without Once doubles", func(t *testing.T) {
			t.Parallel()
			twin(t, name, noOnce, func(doubled, _ int) bool { return doubled > 0 })
		})
		t.Run(name+", the twin with a record outside of the transaction loses", func(t *testing.T) {
			t.Parallel()
			twin(t, name, outside, func(_, lost int) bool { return lost > 0 })
		})
	}
}

// twin applies units until the twin is corrupted.
func twin(t *testing.T, name string, how mode, corrupted func(doubled, lost int) bool) {
	t.Helper()
	r := newRig(t, name, how)
	for {
		r.run(500)
		if corrupted(r.judge()) {
			return
		}
	}
}
