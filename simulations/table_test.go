package simulations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// fencedRow is the same counter in a row that carries its own mark.
type fencedRow struct {
	*table
	accounts *sqlguard.Table
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
func (r *fencedRow) on(db sqlguard.DB) *sqlguard.Table {
	return &sqlguard.Table{
		Guard: &sqlguard.Guard{DB: db, Schema: r.schema, Idle: idle}, Name: pgx.Identifier{r.schema, "accounts"}, Prefix: "account/",
	}
}

// mark reads what the row carries.
func (r *fencedRow) mark(ctx context.Context) (m guard.Mark, err error) {
	err = r.pool.QueryRow(ctx, "SELECT last_token, last_holder FROM "+r.name+" WHERE id = 42").Scan(&m.Number, &m.Holder)
	return m, err
}

// fenced writes by a hand-written statement.
func (r *fencedRow) fenced(ctx context.Context, n int) error {
	own, err := r.accounts.Fence(ctx, 42)
	if err != nil {
		return err
	}
	tag, err := r.pool.Exec(ctx, "UPDATE "+r.name+" AS a SET n = $5, "+own.Set("a", 1)+" WHERE "+own.Where("a", 1), append(own.Args(), n)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = r.accounts.Explain(ctx, 42)
	}
	return err
}

// ways are the writes of a row. Each is told what was read before.
func (r *fencedRow) ways() map[string]func(ctx context.Context, n int) error {
	protected := *r.accounts
	protected.Protected = true
	return map[string]func(ctx context.Context, n int) error{
		"Update":            func(ctx context.Context, n int) error { return r.accounts.Update(ctx, 42, sqlguard.Set{{"n", n}}) },
		"Update, protected": func(ctx context.Context, n int) error { return protected.Update(ctx, 42, sqlguard.Set{{"n", n}}) },
		"Upsert":            func(ctx context.Context, n int) error { return r.accounts.Upsert(ctx, 42, sqlguard.Set{{"n", n}}) },
		"Fence":             r.fenced,
		"Update in a transaction": func(ctx context.Context, n int) error {
			return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
				return r.on(tx).Update(ctx, 42, sqlguard.Set{{"n", n}})
			})
		},
	}
}

func TestRunOnRows(t *testing.T) {
	t.Parallel()
	for name := range (&fencedRow{accounts: new(sqlguard.Table)}).ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, prefix := testenv.Redis(t)
			r := newFencedRow(t)
			write := r.ways()[name]
			simulations.Run(t, simulations.Subject{
				Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource, Count: r.Count,
				Do: func(ctx context.Context) error {
					n, err := r.Count(ctx)
					if err != nil {
						return err
					}
					return write(ctx, n+1)
				},
				Claim: r.accounts.Claim, Mark: r.mark, Bound: idle,
			})
		})
	}
}

// hazard G22
func TestAClaimBesideTheRowIsFound(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	r := newFencedRow(t)
	marks := &sqlguard.Guard{DB: r.pool, Schema: r.schema}
	err := simulations.Examine(t, simulations.Subject{
		Issuer: &redistoken.Issuer{Client: client, Prefix: prefix}, Resource: resource, Count: r.Count,
		Do: func(ctx context.Context) error {
			n, err := r.Count(ctx)
			if err != nil {
				return err
			}
			return r.accounts.Update(ctx, 42, sqlguard.Set{{"n", n + 1}})
		},
		Claim: func(ctx context.Context, tok token.Token) error { return marks.Admit(ctx, tok) },
	})
	var verdict *simulations.Verdict
	require.ErrorAs(t, err, &verdict)
	require.True(t, verdict.Breaks("mark"), "%v", verdict)
}
