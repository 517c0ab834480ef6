package sqlguard_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
)

// explosive is an argument whose own method panics while pgx builds the batch.
type explosive struct{}

func (explosive) Value() (driver.Value, error) { panic("boom") }

// If a batch panics before it is sent, the pool keeps its connection.
func TestAPanicInABatchCostsNoConnection(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for _, reportOnly := range []bool{false, true} {
			inEnv(t, fmt.Sprintf("in mode %s, report-only %t", mode, reportOnly), func(t *testing.T, e *env) {
				e.exec("CREATE PROCEDURE " + e.schema + ".take(text) LANGUAGE sql AS ''")
				e.exec("ALTER TABLE accounts ADD last_token bigint, ADD last_holder text")
				pool, _ := wired(t, 1, inMode(mode))
				g := e.with(func(g *sqlguard.Guard) {
					g.DB, g.DangerouslyReportOnly = pool, reportOnly
					g.Hooks.Reported = func(context.Context, error) {}
				})
				table := func(change func(*sqlguard.Guard)) *rowguard.Table {
					own := *g
					change(&own)
					return &rowguard.Table{Guard: &own, Name: pgx.Identifier{e.schema, "accounts"}, Prefix: "account/"}
				}
				plain := table(func(*sqlguard.Guard) {})
				options := table(func(g *sqlguard.Guard) { g.Tx.IsoLevel = pgx.ReadCommitted })
				bad := rowguard.Set{"writer": explosive{}}
				set := e.sql("UPDATE accounts SET writer = $1 WHERE id = 42")
				for name, call := range map[string]func(ctx context.Context) error{
					"On.Exec": func(ctx context.Context) error { _, err := g.On(resource).Exec(ctx, set, explosive{}); return err },
					"On.Exec of a CALL": func(ctx context.Context) error {
						_, err := g.On(resource).Exec(ctx, "CALL "+e.schema+".take($1)", explosive{})
						return err
					},
					"On.Query":    func(ctx context.Context) error { _, err := g.On(resource).Query(ctx, set, explosive{}); return err },
					"On.QueryRow": func(ctx context.Context) error { return g.On(resource).QueryRow(ctx, set, explosive{}).Scan() },
					"On.SendBatch": func(ctx context.Context) error {
						b := &pgx.Batch{}
						b.Queue(set, "x")
						b.Queue(set, explosive{})
						return g.On(resource).SendBatch(ctx, b).Close()
					},
					"Update": func(ctx context.Context) error {
						return g.Update(ctx, resource, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, set, explosive{}); return err })
					},
					"Table.Update":                  func(ctx context.Context) error { return plain.Update(ctx, 42, bad) },
					"Table.Upsert":                  func(ctx context.Context) error { return plain.Upsert(ctx, 42, bad) },
					"Table.Insert":                  func(ctx context.Context) error { return plain.Insert(ctx, 42, bad) },
					"Table.Upsert, with Tx options": func(ctx context.Context) error { return options.Upsert(ctx, 42, bad) },
				} {
					require.PanicsWithValue(t, "boom", func() { _ = call(e.ctx(33)) }, name)
					e.await(name+" gives its connection back", func() bool { return pool.Stat().AcquiredConns() == 0 })
					_, err := pool.Exec(e.bounded(), "SELECT 1")
					require.NoError(t, err, name)
				}
				require.Empty(t, e.writer())
			})
		}
	}
}

const retries = 10

// hazard G20
func TestZombieRetriesOnAPool(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		inEnv(t, "ten refusals of every door leave the pool its connection, in mode "+mode.String(), func(t *testing.T, e *env) {
			e.admitted(34)
			pool, w := wired(t, 1, inMode(mode))
			g := e.by(pool)
			for name, door := range doors(e, g) {
				for range retries {
					require.ErrorIs(t, door(e.ctx(33), "zombie"), guard.ErrStale, name)
				}
			}
			require.Equal(t, int64(1), w.dials.Load())
		})
	}
	inEnv(t, "an admission inside BeginQuery costs a connection each time", func(t *testing.T, e *env) {
		e.admitted(34)
		pool, w := wired(t, 1)
		for range retries {
			_, err := pool.BeginTx(t.Context(), pgx.TxOptions{BeginQuery: "BEGIN; SELECT " + e.schema + ".admit('account/42', 33, 'h33')"})
			require.ErrorContains(t, err, "ZF001")
		}
		require.Greater(t, w.dials.Load(), int64(retries/2), "the twin must make a storm of connections")
	})
	inEnv(t, "a refusal, a conflict and a constraint leave prepared what is prepared", func(t *testing.T, e *env) {
		e.admitted(34)
		pool, w := wired(t, 1)
		on := e.by(pool).On(resource)
		insert := e.sql("INSERT INTO accounts (id) VALUES ($1)")
		refused := func() { _, err := on.Exec(e.ctx(33), insert, 42); require.ErrorIs(t, err, guard.ErrStale) }
		twice := func() { _, err := on.Exec(e.ctx(34), insert, 42); require.ErrorContains(t, err, "23505") }
		require.Equal(t, int64(1), w.during(refused))
		require.Equal(t, int64(1), w.during(twice))
		require.Equal(t, int64(1), w.dials.Load())
	})
	inEnv(t, "what was prepared against tables that have changed is prepared again", func(t *testing.T, e *env) {
		pool, _ := wired(t, 1)
		on := e.by(pool).On(resource)
		all := e.sql("SELECT * FROM accounts")
		_, err := on.Exec(e.ctx(33), all)
		require.NoError(t, err)
		e.exec("ALTER TABLE accounts ADD extra text")
		_, err = on.Exec(e.ctx(33), all)
		require.ErrorContains(t, err, "cached plan must not change result type")
		_, err = on.Exec(e.ctx(33), all)
		require.NoError(t, err)
	})
}
