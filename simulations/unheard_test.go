package simulations_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/simulations/sqlpoint"
	"github.com/fencepost/fencepost/token/pgtoken"
)

const (
	notDos      = "writes under a context that is not Do's: not observed (UPDATE accounts SET balance"
	otherPools  = "(writes over other connections were not observed)"
	raisesAMark = "UPDATE accounts SET mark = mark + 1 WHERE id = 42"
)

// unheardWrites are writes that bypass the tracer, over the shop's pool or another.
var unheardWrites = []struct {
	name    string
	covered string
	likely  string
	set     func(s *shop, other *pgxpool.Pool) func(ctx context.Context, balance int) error
}{
	{"over the traced pool, without a context", notDos, "a write under another context", func(s *shop, _ *pgxpool.Pool) func(context.Context, int) error {
		return func(_ context.Context, balance int) error { return s.set(context.Background(), s.pool, balance) }
	}},
	{"in a transaction of its own, without a context", notDos, "a write under another context", func(s *shop, _ *pgxpool.Pool) func(context.Context, int) error {
		return func(_ context.Context, balance int) error {
			ctx := context.Background()
			return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return s.set(ctx, tx, balance) })
		}
	}},
	{"over a pool without a tracer", otherPools, "a write over a connection without a tracer", func(s *shop, other *pgxpool.Pool) func(context.Context, int) error {
		return func(ctx context.Context, balance int) error { return s.set(ctx, other, balance) }
	}},
}

func TestUnheardWritesAreReported(t *testing.T) {
	t.Parallel()
	for _, c := range unheardWrites {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, pgxpoint.Tracer{})
			set := c.set(s, s.untraced())
			mark := func(ctx context.Context) error {
				return s.update(ctx, func(tx pgx.Tx) error { _, err := tx.Exec(ctx, raisesAMark); return err })
			}
			// Nothing is observed between the read and the write: no rule is broken.
			subject := some(s.subject(held(func(s *shop, ctx context.Context) error {
				if err := mark(ctx); err != nil {
					return err
				}
				return s.spend(context.Background(), s.pool, func(left int) error { return set(ctx, left) })
			})(s)))
			covered, err := simulations.Cover(t.Context(), subject)
			require.NoError(t, err)
			require.Contains(t, covered, c.covered)
			if c.covered == notDos {
				require.ErrorContains(t, simulations.Check(t, subject), c.covered)
			}

			err = simulations.Check(t, untilFound(s.subject(held(func(s *shop, ctx context.Context) error {
				return s.spend(ctx, s.pool, func(left int) error {
					if err := mark(ctx); err != nil {
						return err
					}
					return set(ctx, left)
				})
			})(s))))
			t.Log(err)
			requireLikely(t, err, c.likely)
		})
	}
}

// untraced returns another pool over the shop's database.
func (s *shop) untraced() *pgxpool.Pool {
	config := s.pool.Config().Copy()
	config.ConnConfig.Tracer = nil
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(s.t, err)
	s.t.Cleanup(pool.Close)
	return pool
}

// As with GORM's db.Save without WithContext.
func TestUnheardWritesOverDatabaseSQLAreReported(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(driver.Connector) driver.Connector{
		notDos: sqlpoint.Wrap, otherPools: func(base driver.Connector) driver.Connector { return base },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := postgresTill(t, sqlpoint.Wrap)
			db := s.db
			if name == otherPools {
				db = opened(t, wrap(stdlib.GetConnector(*s.config)))
			}
			covered, err := simulations.Cover(t.Context(), some(s.subject(held(func(s *till, ctx context.Context) error {
				if err := s.update(ctx, func(tx *sql.Tx) error { return do(ctx, tx, raisesAMark) }); err != nil {
					return err
				}
				return s.withdraw(context.Background(), db, db)
			})(s))))
			require.NoError(t, err)
			require.Contains(t, covered, "tracers: database/sql")
			require.Contains(t, covered, name)
		})
	}
}

// What the issuer and Count write over the traced pool is no write of Do's.
func TestTheKitsOwnWritesAreNotReported(t *testing.T) {
	t.Parallel()
	s := openShop(t, pgxpoint.Tracer{})
	issuer := &pgtoken.Issuer{DB: s.pool, Schema: s.schema}
	s.locks.Issuer = issuer
	subject := s.subject(s.guarded)
	subject.Issuer = issuer
	subject.Count = func(ctx context.Context) (n int, err error) {
		const counts = "UPDATE accounts SET mark = mark WHERE id = 42 RETURNING $1 - balance"
		err = s.pool.QueryRow(ctx, counts, opening).Scan(&n)
		return n, err
	}
	covered, err := simulations.Cover(t.Context(), some(subject))
	require.NoError(t, err)
	require.Contains(t, covered, "tracers: pgx")
	require.NotContains(t, covered, "not Do's")
}
