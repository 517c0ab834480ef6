package leader_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// A leader that was paused past the end of its term writes afterwards.
func TestADeposedLeaderIsRefused(t *testing.T) {
	t.Parallel()
	pool, fence, plans := database(t)
	terms := stand(t, redisIssuer(t), 2, kept)
	old := next(t, terms)
	old.resign <- nil
	now := next(t, terms)
	write := func(of *term, plan string) error {
		_, err := fence.On(role).Exec(token.NewContext(t.Context(), of.tok), "UPDATE "+plans+" SET plan = $1", plan)
		return err
	}
	require.NoError(t, write(now, "new"))
	require.ErrorIs(t, write(old, "old"), guard.ErrStale)
	require.Equal(t, "new", read(t, pool, plans))

	_, err := pool.Exec(t.Context(), "UPDATE "+plans+" SET plan = $1", "old")
	require.NoError(t, err)
	require.Equal(t, "old", read(t, pool, plans), "without the fence its late write is applied")
}

func database(t *testing.T) (*pgxpool.Pool, *sqlguard.Guard, string) {
	pool, schema := testenv.Postgres(t)
	plans := pgx.Identifier{schema, "plans"}.Sanitize()
	_, err := pool.Exec(t.Context(), fmt.Sprintf("CREATE TABLE %s (plan text); INSERT INTO %[1]s VALUES ('')", plans))
	require.NoError(t, err)
	return pool, &sqlguard.Guard{DB: pool, Schema: schema}, plans
}

func read(t *testing.T, pool *pgxpool.Pool, plans string) (plan string) {
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT plan FROM "+plans).Scan(&plan))
	return plan
}
