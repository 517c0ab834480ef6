package simulations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// table are the same rows, with marks of their own.
func (v *versioned) table(testing.TB) way {
	accounts := &sqlguard.Table{Guard: v.fence, Name: pgx.Identifier{v.schema, "versioned"}, Prefix: "row/"}
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
		return seen, seen + 1, accounts.Update(ctx, id(row), sqlguard.Set{{"version", seen + 1}})
	})
	w.claim = accounts.Claim
	w.mark = func(ctx context.Context, row string) (m guard.Mark, err error) {
		marks := strings.Replace(v.selects, "SELECT version", "SELECT last_token, last_holder", 1)
		err = v.pool.QueryRow(ctx, marks, id(row)).Scan(&m.Number, &m.Holder)
		return m, err
	}
	return w
}

// counted adds one in a statement written by hand.
func (v *versioned) counted(ctx context.Context, accounts *sqlguard.Table, row string) (made int64, err error) {
	own, err := accounts.Fence(ctx, id(row))
	if err != nil {
		return 0, err
	}
	text := "UPDATE " + accounts.Name.Sanitize() + " AS v SET version = v.version + 1, " + own.Set("v", 1) +
		" WHERE " + own.Where("v", 1) + " RETURNING version"
	err = v.pool.QueryRow(ctx, text, own.Args()...).Scan(&made)
	if errors.Is(err, pgx.ErrNoRows) {
		err = accounts.Explain(ctx, id(row))
	}
	return made, err
}

// protected are the rows of a table that takes no write without an admission.
func (v *versioned) protected(t testing.TB) way {
	_, err := v.pool.Exec(t.Context(), "SELECT "+pgx.Identifier{v.schema, "protect"}.Sanitize()+"($1::text::regclass, $2)",
		pgx.Identifier{v.schema, "versioned"}.Sanitize(), "'row/' || id")
	require.NoError(t, err)
	return v.on(t)
}
