package stdsql_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

// doors are the ways through a guard, each with a write.
func doors(t *testing.T, g *stdsql.Guard, ctx context.Context, tok token.Token, write func(tx *sql.Tx) error) map[string]func() error { //nolint:revive // as in the other helpers
	t.Helper()
	return map[string]func() error{
		"Admit":     func() error { return g.Admit(ctx, tok) },
		"Update":    func() error { return g.Update(ctx, tok.Resource, write) },
		"UpdateAll": func() error { return g.UpdateAll(ctx, []string{tok.Resource}, write) },
		"Join": func() error {
			return inTx(t, g.DB, func(tx *sql.Tx) error {
				if err := g.Join(ctx, tx, tok.Resource); err != nil {
					return err
				}
				return write(tx)
			})
		},
	}
}

func TestADialectThatIsNotTheDatabases(t *testing.T) {
	t.Parallel()
	seems := map[stdsql.Dialect]string{stdsql.Postgres: "PostgreSQL", stdsql.MySQL: "MySQL or MariaDB", stdsql.SQLite: "SQLite"}
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		pool := db.connect(t)
		pool.SetMaxOpenConns(1)
		for _, dialect := range []stdsql.Dialect{stdsql.Postgres, stdsql.MySQL, stdsql.SQLite} {
			if dialect == db.dialect {
				continue
			}
			for _, trust := range []bool{false, true} {
				g := &stdsql.Guard{DB: pool, Dialect: dialect, DangerouslyTrustEngine: trust}
				ctx := holding(t, 34, "b")
				for door, enter := range minting(t, g, doors(t, g, ctx, tok(34, "b"), add(ctx, 10))) {
					if door == "MintTx" && dialect == stdsql.MySQL {
						continue // it sends nothing
					}
					err := enter()
					require.ErrorContains(t, err, "stdsql: Guard.Dialect is "+dialect.String()+", and the database seems to be "+seems[db.dialect]+", nothing applied: ", door)
					require.False(t, guard.IsRefusal(err), door)
				}
			}
		}
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))
		ctx := holding(t, 33, "a")
		require.NoError(t, db.over(pool).Update(ctx, account, add(ctx, 10)), "the connection must be fit for use")
		require.Equal(t, 110, balance(t, db))
	})
}

// otherEngines are replies to the probes that no test server gives.
var otherEngines = map[stdsql.Dialect]struct{ probe, answer, engine string }{
	stdsql.Postgres: {engine.PostgresQuery, "SELECT 'CockroachDB CCL v23.1.0 (x86_64-pc-linux-gnu)', ''", "CockroachDB (CockroachDB CCL v23.1.0"},
	stdsql.MySQL:    {engine.MySQLQuery, "SELECT 'version', '8.0.11-TiDB-v8.1.0'", "TiDB (8.0.11-TiDB-v8.1.0): "},
}

// asOtherEngine returns a pool of one connection, whose server replies to the probe as
// another engine. On SQLite it is a driver without transactions.
func (db *database) asOtherEngine(t *testing.T) *sql.DB {
	t.Helper()
	if db.dialect == stdsql.SQLite {
		return db.autocommitting(t, &hooks{})
	}
	as := otherEngines[db.dialect]
	pool := db.hooked(t, &hooks{query: func(query string) string {
		if query == as.probe {
			return as.answer
		}
		return query
	}})
	pool.SetMaxOpenConns(1)
	return pool
}

// session returns what identifies a connection, and a setting that an Update changes.
func (db *database) session(t *testing.T, pool *sql.DB) string {
	t.Helper()
	return one[string](t, pool, map[stdsql.Dialect]string{
		stdsql.Postgres: "SELECT pg_backend_pid() || ' ' || current_setting('idle_in_transaction_session_timeout')",
		stdsql.MySQL:    "SELECT CONCAT(CONNECTION_ID(), ' ', @@SESSION.wait_timeout)",
	}[db.dialect])
}

// hazard M1
func TestAnUnfencedEngineIsRefused(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		pool := db.asOtherEngine(t)
		session := db.session(t, pool)
		for _, own := range []token.Token{tok(33, "a"), tok(34, "b")} { // the mark's own token, and one that has to raise it
			ctx := token.NewContext(t.Context(), own)
			g := db.over(pool)
			for door, enter := range minting(t, g, doors(t, g, ctx, own, func(*sql.Tx) error { t.Error("fn must not run"); return nil })) {
				err := enter()
				if errors.Is(err, guard.ErrClaimFirst) && (door == "Join" || door == "MintTx") && db.dialect == stdsql.MySQL {
					continue // also not admitted
				}
				require.ErrorIs(t, err, guard.ErrUnfenced, door)
				require.ErrorContains(t, err, otherEngines[db.dialect].engine, door)
				require.False(t, guard.IsRefusal(err), door)
				require.Equal(t, session, db.session(t, pool), "%s: the connection goes back as it was", door)
			}
		}
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, db.mark(t, account))

		if db.dialect == stdsql.Postgres {
			ctx := holding(t, 33, "a")
			require.ErrorContains(t, inTx(t, pool, func(tx *sql.Tx) error {
				require.ErrorIs(t, db.over(pool).Join(ctx, tx, account), guard.ErrUnfenced)
				return write(ctx, tx, 0)
			}), "current transaction is aborted", "the refusal aborts the caller's transaction")
		}
		ctx, vouched := holding(t, 33, "a"), db.over(pool)
		vouched.DangerouslyTrustEngine = true
		for door, enter := range doors(t, vouched, ctx, tok(33, "a"), func(*sql.Tx) error { return nil }) {
			require.NoError(t, enter(), door)
		}
		require.ErrorIs(t, vouched.Update(holding(t, 32, "b"), account, add(ctx, 10)), guard.ErrStale, "and fences")
		_, err := vouched.Mint(ctx, account, "c")
		require.NoError(t, err)
	})
}

// hazards M1, G28
func TestReportOnlyTellsOfAnUnfencedEngineAndGoesOn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		g, reported := db.reportOnly(t)
		g.DB = db.asOtherEngine(t)
		for door, enter := range doors(t, g, ctx, tok(33, "a"), add(ctx, 10)) {
			*reported = nil
			require.NoError(t, enter(), door)
			require.Len(t, *reported, 1, door)
			require.ErrorIs(t, (*reported)[0], guard.ErrUnfenced, door)
			require.ErrorContains(t, (*reported)[0], "stdsql: report-only: ", door)
		}
		require.Equal(t, 130, balance(t, db), "each write but the claim")
		require.ErrorIs(t, db.over(g.DB).Update(ctx, account, add(ctx, 10)), guard.ErrUnfenced, "that was no permission")
		require.ErrorIs(t, inTx(t, g.DB, func(tx *sql.Tx) error { return db.over(g.DB).Join(ctx, tx, account) }), guard.ErrUnfenced, "nor for Join")

		require.NoError(t, g.Admit(t.Context(), tok(34, "b")))
		require.Equal(t, guard.Mark{Number: 34, Holder: "b"}, db.mark(t, account), "the claim raises the mark")
		*reported = nil
		minted, err := mintedToken(g.Mint(t.Context(), account, "c"))
		require.NoError(t, err)
		require.Len(t, *reported, 1)
		require.ErrorIs(t, (*reported)[0], guard.ErrUnfenced)
		require.Equal(t, guard.Mark{Number: minted.Number, Holder: "c"}, db.mark(t, account))
	})
}

func TestAConnectionIsAskedOnce(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		var probes atomic.Int64
		h := &hooks{query: func(query string) string {
			if query == otherEngines[db.dialect].probe {
				probes.Add(1)
			}
			return query
		}}
		db.claim(t, tok(33, "a"))
		ctx := holding(t, 33, "a")
		pool := db.hooked(t, h)
		pool.SetMaxOpenConns(1)
		for range 3 {
			require.NoError(t, db.over(pool).Admit(ctx, tok(33, "a")))
			require.NoError(t, db.over(pool).Update(ctx, account, add(ctx, 1)))
		}
		require.Equal(t, int64(1), probes.Load(), "of a transaction of the guard's own")
		for range 3 {
			require.NoError(t, inTx(t, pool, func(tx *sql.Tx) error {
				require.NoError(t, db.over(nil).Join(ctx, tx, account))
				return db.over(nil).Join(ctx, tx, account)
			}))
		}
		require.Equal(t, int64(2), probes.Load(), "of the caller's")
		pool.SetMaxIdleConns(0)
		require.NoError(t, db.over(pool).Update(ctx, account, add(ctx, 1)))
		require.Equal(t, int64(3), probes.Load(), "of another connection")
	})
	t.Run("PostgreSQL, over a pgxpool", aPooledConnectionIsAskedOnce)
}

// probeCounter counts the probes that pgx sends.
type probeCounter struct{ probes atomic.Int64 }

func (c *probeCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL == engine.PostgresQuery {
		c.probes.Add(1)
	}
	return ctx
}

func (*probeCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// aPooledConnectionIsAskedOnce uses a pool whose driver connections are made for each
// transaction, over connections that a pgxpool keeps.
func aPooledConnectionIsAskedOnce(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	db.claim(t, tok(33, "a"))
	config, err := pgxpool.ParseConfig(db.dsn)
	require.NoError(t, err)
	counter := &probeCounter{}
	config.ConnConfig.Tracer, config.MaxConns = counter, 1
	conns, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	defer conns.Close()
	pool := stdlib.OpenDBFromPool(conns)
	defer pool.Close()
	ctx := holding(t, 33, "a")
	for connection := range int64(2) {
		for range 3 {
			require.NoError(t, db.over(pool).Admit(ctx, tok(33, "a")))
			require.NoError(t, db.over(pool).Update(ctx, account, add(ctx, 1)))
		}
		require.Equal(t, 1+connection, counter.probes.Load())
		conns.Reset() // closes the connection
	}
}

func TestAConnectionThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	onServers(t, func(t *testing.T, db *database) {
		pool := db.connect(t)
		ctx := holding(t, 33, "a")
		require.NoError(t, db.over(pool).Admit(ctx, tok(33, "a")))
		conn, err := pool.Conn(t.Context())
		require.NoError(t, err)
		key := stdsql.KeyOf(conn)
		require.True(t, stdsql.Known(key))
		require.NoError(t, conn.Close())
		require.NoError(t, pool.Close())
		conn, pool = nil, nil
		require.Eventually(t, func() bool {
			runtime.GC()
			return !stdsql.Known(key) && key.Value() == nil
		}, hang, 5*time.Millisecond)
	})
}
