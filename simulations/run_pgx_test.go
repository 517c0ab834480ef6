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
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/pgxpoint"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
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
	name := pgx.Identifier{schema, "counter"}.Sanitize()
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

// mark reads the guard's mark.
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

const idle = 250 * time.Millisecond

func runOnPostgres(t *testing.T, try scope) {
	for name, do := range testenv.Some(t, map[string]func(u *table, fence *sqlguard.Guard, ctx context.Context) error{
		"Update": func(u *table, fence *sqlguard.Guard, ctx context.Context) error {
			return fence.Update(ctx, resource, func(tx pgx.Tx) error { return u.add(ctx, tx, tx) })
		},
		"a read before Update": func(u *table, fence *sqlguard.Guard, ctx context.Context) error {
			n, err := u.Count(ctx)
			if err != nil {
				return err
			}
			return guardedWrite(ctx, fence, u.sets, n+1)
		},
		"On": func(u *table, fence *sqlguard.Guard, ctx context.Context) error {
			guarded := fence.On(resource)
			return u.add(ctx, guarded, guarded)
		},
		"Join": func(u *table, fence *sqlguard.Guard, ctx context.Context) error {
			return pgx.BeginFunc(ctx, u.pool, func(tx pgx.Tx) error {
				if err := fence.Join(ctx, tx, resource); err != nil {
					return err
				}
				return u.add(ctx, tx, tx)
			})
		},
	}, "Update", "On", "Join") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			u := newTable(t)
			fence := &sqlguard.Guard{DB: u.pool, Schema: u.schema, IdleTimeout: idle}
			simulations.Run(t, try(simulations.Subject{
				Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource,
				Do:    func(ctx context.Context) error { return do(u, fence, ctx) },
				Count: u.Count, Claim: fence.Admit, Mark: u.mark, MaxBlocking: idle,
			}))
		})
	}
}

// A service that takes the lock itself is tested without a change.
func runWithAHoldOfItsOwn(t *testing.T, try scope) {
	u := newTable(t)
	iss := &pgtoken.Issuer{DB: u.pool, Schema: u.schema}
	fence := &sqlguard.Guard{DB: u.pool, Schema: u.schema, IdleTimeout: idle}
	locks := &lock.Locker{Issuer: iss, Claim: fence.Admit}
	simulations.Run(t, try(simulations.Subject{
		Issuer: iss, Resource: resource, Count: u.Count, Holds: true,
		Do: func(ctx context.Context) error {
			return locks.Hold(ctx, resource, func(ctx context.Context) error {
				return fence.Update(ctx, resource, func(tx pgx.Tx) error { return u.add(ctx, tx, tx) })
			})
		},
	}))
}

// fencedRow is the same counter in a row that carries its own mark.
type fencedRow struct {
	*table
	accounts *rowguard.Table
	name     string
}

func newFencedRow(t *testing.T) *fencedRow {
	t.Helper()
	u := newTable(t)
	r := &fencedRow{table: u, name: pgx.Identifier{u.schema, "accounts"}.Sanitize()}
	_, err := u.pool.Exec(t.Context(), "CREATE TABLE "+r.name+" (id bigint PRIMARY KEY, n int NOT NULL); INSERT INTO "+r.name+" VALUES (42, 0), (43, 0)")
	require.NoError(t, err)
	_, err = u.pool.Exec(t.Context(), "SELECT "+pgx.Identifier{u.schema}.Sanitize()+".add_mark_columns($1::text::regclass)", r.name)
	require.NoError(t, err)
	r.selects = "SELECT n FROM " + r.name + " WHERE id = 42"
	r.accounts = r.on(u.pool)
	return r
}

// on is the table over a pool or a transaction.
func (r *fencedRow) on(db sqlguard.DB) *rowguard.Table {
	return &rowguard.Table{
		Guard: &sqlguard.Guard{DB: db, Schema: r.schema, IdleTimeout: idle}, Name: pgx.Identifier{r.schema, "accounts"}, Prefix: "account/",
	}
}

// mark reads the mark in the row.
func (r *fencedRow) mark(ctx context.Context) (m guard.Mark, err error) {
	err = r.pool.QueryRow(ctx, "SELECT last_token, last_holder FROM "+r.name+" WHERE id = 42").Scan(&m.Number, &m.Holder)
	return m, err
}

// fenced returns a write by a hand-written statement.
func (r *fencedRow) fenced(ctx context.Context, n int) error {
	own, err := r.accounts.Fence(ctx, 42)
	if err != nil {
		return err
	}
	f := own.Clauses("a", n)
	tag, err := r.pool.Exec(ctx, "UPDATE "+r.name+" AS a SET n = $1, "+f.Set+" WHERE "+f.Where, f.Args...)
	if err == nil && tag.RowsAffected() == 0 {
		err = r.accounts.Explain(ctx, 42)
	}
	return err
}

// ways are the ways to write a row. Each gets the value that was read before.
func (r *fencedRow) ways() map[string]func(ctx context.Context, n int) error {
	protected := *r.accounts
	protected.Protected = true
	return map[string]func(ctx context.Context, n int) error{
		"Update":            func(ctx context.Context, n int) error { return r.accounts.Update(ctx, 42, rowguard.Set{"n": n}) },
		"Update, protected": func(ctx context.Context, n int) error { return protected.Update(ctx, 42, rowguard.Set{"n": n}) },
		"Upsert":            func(ctx context.Context, n int) error { return r.accounts.Upsert(ctx, 42, rowguard.Set{"n": n}) },
		"Fence":             r.fenced,
		"Update in a transaction": func(ctx context.Context, n int) error {
			return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
				return r.on(tx).Update(ctx, 42, rowguard.Set{"n": n})
			})
		},
	}
}

func runOnRows(t *testing.T, try scope) {
	for name := range testenv.Some(t, (&fencedRow{accounts: new(rowguard.Table)}).ways(), "Update", "Fence") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			r := newFencedRow(t)
			write := r.ways()[name]
			simulations.Run(t, try(simulations.Subject{
				Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource, Count: r.Count,
				Do: func(ctx context.Context) error {
					n, err := r.Count(ctx)
					if err != nil {
						return err
					}
					return write(ctx, n+1)
				},
				Claim: r.accounts.Claim, Mark: r.mark, MaxBlocking: idle,
			}))
		})
	}
}

// hazard G22
func TestAClaimBesideTheRowIsFound(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	r := newFencedRow(t)
	marks := &sqlguard.Guard{DB: r.pool, Schema: r.schema}
	_ = breaks(t, simulations.Subject{
		Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource, Count: r.Count,
		Do: func(ctx context.Context) error {
			n, err := r.Count(ctx)
			if err != nil {
				return err
			}
			return r.accounts.Update(ctx, 42, rowguard.Set{"n": n + 1})
		},
		Claim: func(ctx context.Context, tok token.Token) error { return marks.Admit(ctx, tok) },
	}, "mark")
}

// protected is a counter in a protected table.
func protected(t *testing.T, mode string) (u *table, fence *sqlguard.Guard) {
	t.Helper()
	u = newTable(t)
	_, err := u.pool.Exec(t.Context(), "SELECT "+u.schema+".protect($1, quote_literal($2), $3)", u.schema+".counter", resource, mode)
	require.NoError(t, err)
	return u, &sqlguard.Guard{DB: u.pool, Schema: u.schema, IdleTimeout: idle}
}

func (t *table) protectedSubject(tb testing.TB, fence *sqlguard.Guard) simulations.Subject {
	client, prefix := testenv.Redis(tb)
	return simulations.Subject{
		Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource,
		Do: func(ctx context.Context) error {
			return fence.Update(ctx, resource, func(tx pgx.Tx) error { return t.add(ctx, tx, tx) })
		},
		Count: t.Count, Claim: fence.Admit, Mark: t.mark, MaxBlocking: idle,
	}
}

// A report-only guard cannot write to a table that enforces. With the same code as its
// twin, the first of these runs is vacuous.
//
// hazard G15
func runOnProtectedTables(t *testing.T, try scope) {
	t.Run("that enforces, whose twin asks for a bypass by name", func(t *testing.T) {
		t.Parallel()
		u, fence := protected(t, "enforce")
		s := u.protectedSubject(t, fence)
		s.Mark = nil // which the own twin does not raise
		s.Unguarded = func(ctx context.Context) error {
			return pgx.BeginFunc(ctx, u.pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "SELECT "+u.schema+".bypass($1, 'the twin of a simulation')", u.schema+".counter"); err != nil {
					return err
				}
				return u.add(ctx, tx, tx)
			})
		}
		simulations.Run(t, try(s))
	})
	t.Run("that observes, whose twin is the same code", func(t *testing.T) {
		t.Parallel()
		u, fence := protected(t, "report-only")
		simulations.Run(t, try(u.protectedSubject(t, fence)))
	})
}

func TestExamineCodeThatForgotTheGuardOfAProtectedTable(t *testing.T) {
	t.Parallel()
	u, fence := protected(t, "enforce")
	s := u.protectedSubject(t, fence)
	s.Do = func(ctx context.Context) error { return u.add(ctx, u.pool, u.pool) }
	var refusal *pgconn.PgError
	require.ErrorAs(t, simulations.Check(t, some(s)), &refusal)
	require.Equal(t, "ZF003", refusal.Code)
	n, err := u.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}
