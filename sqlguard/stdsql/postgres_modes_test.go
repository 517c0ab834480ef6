package stdsql_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestPostgresInEveryExecMode(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for i, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		pool := connect(t, "pgx", db.setting(t, "default_query_exec_mode", mode))
		number := int64(33 + i)
		g, ctx, zombie := db.over(pool), holding(t, number, "a"), holding(t, number-1, "b")
		for range 2 {
			require.NoError(t, g.Update(ctx, account, add(ctx, 10)), mode)
		}
		require.ErrorIs(t, g.Update(zombie, account, add(zombie, 10)), guard.ErrStale, mode)
		g.DangerouslyObserve, g.Observer.Observed = true, func(context.Context, error) {}
		require.NoError(t, g.Update(zombie, account, add(zombie, 10)), mode)
		require.NoError(t, inTx(t, pool, func(tx *sql.Tx) error { return g.Join(ctx, tx, account) }), mode)
	}
	require.Equal(t, 250, balance(t, db))
}
