package simulations_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

func TestStressHistoriesOnPostgres(t *testing.T) {
	t.Parallel()
	n := testenv.Rounds(t, "FENCEPOST_TORTURE", manyHistories)
	ways := map[string]func(*versioned, testing.TB) way{
		"Update": (*versioned).update, "On": (*versioned).on, "Join": (*versioned).join, "Table": (*versioned).table,
		"Update, pruned": (*versioned).pruned, "On, protected": (*versioned).protected,
	}
	for name, build := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSixteen(t, build(newVersioned(t), t))
			require.Empty(t, s.run(n/len(ways)), "FENCEPOST_TEST_SEED=%d", s.seed)
		})
	}
}

// versioned are four rows in PostgreSQL. Each write creates a version.
type versioned struct {
	pool                  *pgxpool.Pool
	schema                string
	fence                 *sqlguard.Guard
	selects, sets, counts string
}

func newVersioned(t testing.TB) *versioned {
	t.Helper()
	pool, schema := testenv.Postgres(t)
	table := pgx.Identifier{schema, "versioned"}.Sanitize()
	_, err := pool.Exec(t.Context(), "CREATE TABLE "+table+" (id bigint PRIMARY KEY, version bigint NOT NULL DEFAULT 0, "+
		"last_token bigint NOT NULL DEFAULT 0, last_holder text COLLATE \"C\" NOT NULL DEFAULT '');"+
		"INSERT INTO "+table+" (id) SELECT generate_series(0, 3)")
	require.NoError(t, err)
	return &versioned{
		pool: pool, schema: schema,
		// No writer is paused, but on a busy machine one may be idle as long.
		fence:   &sqlguard.Guard{DB: pool, Schema: schema, IdleTimeout: 5 * time.Minute},
		selects: "SELECT version FROM " + table + " WHERE id = $1",
		sets:    "UPDATE " + table + " SET version = $2 WHERE id = $1",
		counts:  "UPDATE " + table + " SET version = version + 1 WHERE id = $1 RETURNING version",
	}
}

func id(row string) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(row, "row/"), 10, 64)
	return n
}

// makes adds one, by a read and a write or in one statement.
func (v *versioned) makes(ctx context.Context, from, to querier, row string, alone bool) (seen, made int64, err error) {
	if !alone {
		err = to.QueryRow(ctx, v.counts, id(row)).Scan(&made)
		return made - 1, made, err
	}
	if err := from.QueryRow(ctx, v.selects, id(row)).Scan(&seen); err != nil {
		return 0, 0, err
	}
	_, err = to.Exec(ctx, v.sets, id(row), seen+1)
	return seen, seen + 1, err
}

// way returns a way whose writes are made by add.
func (v *versioned) way(add func(ctx context.Context, row string, alone bool) (int64, int64, error)) way {
	return way{
		claim: v.fence.Admit, add: add,
		count: func(ctx context.Context, row string) (n int64, err error) {
			err = v.pool.QueryRow(ctx, v.selects, id(row)).Scan(&n)
			return n, err
		},
		mark: v.mark,
	}
}

func (v *versioned) mark(ctx context.Context, row string) (m guard.Mark, err error) {
	err = v.pool.QueryRow(ctx, "SELECT number, holder FROM "+pgx.Identifier{v.schema, "marks"}.Sanitize()+" WHERE resource = $1", row).
		Scan(&m.Number, &m.Holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return guard.Mark{}, nil
	}
	return m, err
}

func (v *versioned) update(testing.TB) way {
	return v.way(func(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
		err = v.fence.Update(ctx, row, func(tx pgx.Tx) error {
			seen, made, err = v.makes(ctx, tx, tx, row, alone)
			return err
		})
		return seen, made, err
	})
}

// on reads and writes in two transactions, which needs a claim before them.
func (v *versioned) on(testing.TB) way {
	return v.way(func(ctx context.Context, row string, alone bool) (int64, int64, error) {
		if err := claimFor(ctx, v.fence.Admit, row); err != nil {
			return 0, 0, err
		}
		on := v.fence.On(row)
		return v.makes(ctx, v.pool, on, row, alone)
	})
}

func (v *versioned) join(testing.TB) way {
	return v.way(func(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
		err = pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) error {
			if err := v.fence.Join(ctx, tx, row); err != nil {
				return err
			}
			seen, made, err = v.makes(ctx, tx, tx, row, alone)
			return err
		})
		return seen, made, err
	})
}

// pruned deletes old marks repeatedly.
func (v *versioned) pruned(t testing.TB) way {
	w := v.update(t)
	w.mark = nil // a pruned mark cannot be read
	w.forget = func(ctx context.Context, least int64) error {
		_, err := v.pool.Exec(ctx, "SELECT "+pgx.Identifier{v.schema, "prune"}.Sanitize()+"($1)", least)
		return err
	}
	return w
}

// claimFor claims with the token in ctx.
func claimFor(ctx context.Context, claim func(context.Context, token.Token) error, row string) error {
	tok, err := token.FromContext(ctx, row)
	if err != nil {
		return err
	}
	return claim(ctx, tok)
}

// table are the same rows, with marks of their own.
func (v *versioned) table(testing.TB) way {
	accounts := &rowguard.Table{Guard: v.fence, Name: pgx.Identifier{v.schema, "versioned"}, Prefix: "row/"}
	w := v.way(func(ctx context.Context, row string, alone bool) (seen, made int64, err error) {
		if err := claimFor(ctx, accounts.Claim, row); err != nil {
			return 0, 0, err
		}
		if !alone {
			made, err = v.counted(ctx, accounts, row)
			return made - 1, made, err
		}
		if err := v.pool.QueryRow(ctx, v.selects, id(row)).Scan(&seen); err != nil {
			return 0, 0, err
		}
		return seen, seen + 1, accounts.Update(ctx, id(row), rowguard.Set{"version": seen + 1})
	})
	w.claim = accounts.Claim
	w.mark = func(ctx context.Context, row string) (m guard.Mark, err error) {
		marks := strings.Replace(v.selects, "SELECT version", "SELECT last_token, last_holder", 1)
		err = v.pool.QueryRow(ctx, marks, id(row)).Scan(&m.Number, &m.Holder)
		return m, err
	}
	return w
}

// counted adds one with a hand-written statement.
func (v *versioned) counted(ctx context.Context, accounts *rowguard.Table, row string) (made int64, err error) {
	own, err := accounts.Fence(ctx, id(row))
	if err != nil {
		return 0, err
	}
	f := own.Clauses("v")
	text := "UPDATE " + accounts.Name.Sanitize() + " AS v SET version = v.version + 1, " + f.Set +
		" WHERE " + f.Where + " RETURNING version"
	err = v.pool.QueryRow(ctx, text, f.Args...).Scan(&made)
	if errors.Is(err, pgx.ErrNoRows) {
		err = accounts.Explain(ctx, id(row))
	}
	return made, err
}

// protected are the rows of a table that refuses writes without an admission.
func (v *versioned) protected(t testing.TB) way {
	_, err := v.pool.Exec(t.Context(), "SELECT "+pgx.Identifier{v.schema, "protect"}.Sanitize()+"($1::text::regclass, $2)",
		pgx.Identifier{v.schema, "versioned"}.Sanitize(), "'row/' || id")
	require.NoError(t, err)
	return v.on(t)
}
