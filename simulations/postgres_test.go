package simulations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// table is a counter in PostgreSQL, read and written by the code under test.
type table struct {
	pool          *pgxpool.Pool
	schema        string
	selects, sets string
}

func newTable(t *testing.T) *table {
	t.Helper()
	given, schema := testenv.Postgres(t)
	config := given.Config().Copy()
	config.ConnConfig.Tracer = pgxpoint.Tracer{}
	config.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	name := pgx.Identifier{schema, "units"}.Sanitize()
	_, err = pool.Exec(t.Context(), "CREATE TABLE "+name+" (n int NOT NULL); INSERT INTO "+name+" VALUES (0)")
	require.NoError(t, err)
	return &table{
		pool: pool, schema: schema,
		selects: "SELECT n FROM " + name,
		sets:    "UPDATE " + name + " SET n = $1",
	}
}

func (t *table) Count(ctx context.Context) (n int, err error) {
	err = t.pool.QueryRow(ctx, t.selects).Scan(&n)
	return n, err
}

// mark reads what the guard keeps.
func (t *table) mark(ctx context.Context) (m guard.Mark, err error) {
	err = t.pool.QueryRow(ctx, "SELECT number, holder FROM "+pgx.Identifier{t.schema, "marks"}.Sanitize()+
		" WHERE resource = $1", resource).Scan(&m.Number, &m.Holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return guard.Mark{}, nil
	}
	return m, err
}

// querier is a pool, a connection, a transaction, or a guard's Conn.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// add reads over one and writes over the other.
func (t *table) add(ctx context.Context, from, to querier) error {
	var n int
	if err := from.QueryRow(ctx, t.selects).Scan(&n); err != nil {
		return err
	}
	_, err := to.Exec(ctx, t.sets, n+1)
	return err
}

const idle = 100 * time.Millisecond

func TestRunOnPostgres(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*table, *sqlguard.Guard) func(context.Context) error{
		"Update": func(u *table, fence *sqlguard.Guard) func(context.Context) error {
			return func(ctx context.Context) error {
				return fence.Update(ctx, resource, func(tx pgx.Tx) error { return u.add(ctx, tx, tx) })
			}
		},
		"a read before Update": func(u *table, fence *sqlguard.Guard) func(context.Context) error {
			return func(ctx context.Context) error {
				n, err := u.Count(ctx)
				if err != nil {
					return err
				}
				return fence.Update(ctx, resource, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, u.sets, n+1)
					return err
				})
			}
		},
		"On": func(u *table, fence *sqlguard.Guard) func(context.Context) error {
			return func(ctx context.Context) error {
				guarded := fence.On(resource)
				return u.add(ctx, guarded, guarded)
			}
		},
		"Join": func(u *table, fence *sqlguard.Guard) func(context.Context) error {
			return func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, u.pool, func(tx pgx.Tx) error {
					if err := fence.Join(ctx, tx, resource); err != nil {
						return err
					}
					return u.add(ctx, tx, tx)
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			u := newTable(t)
			fence := &sqlguard.Guard{DB: u.pool, Schema: u.schema, Idle: idle}
			simulations.Run(t, simulations.Subject{
				Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource,
				Do: do(u, fence), Count: u.Count, Claim: fence.Admit, Mark: u.mark, Bound: idle,
			})
		})
	}
}

// A service that takes its own lock is put to the test as it is.
func TestRunWithTheSubjectsOwnHold(t *testing.T) {
	t.Parallel()
	u := newTable(t)
	iss := &pgtoken.Issuer{DB: u.pool, Schema: u.schema}
	fence := &sqlguard.Guard{DB: u.pool, Schema: u.schema, Idle: idle}
	locks := &token.Locker{Issuer: iss, Claim: fence.Admit}
	simulations.Run(t, simulations.Subject{
		Issuer: iss, Resource: resource, Count: u.Count,
		Do: func(ctx context.Context) error {
			return locks.Hold(ctx, resource, func(ctx context.Context) error {
				return fence.Update(ctx, resource, func(tx pgx.Tx) error { return u.add(ctx, tx, tx) })
			})
		},
	})
}
