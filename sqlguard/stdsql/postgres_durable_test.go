package stdsql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// hazard G26
func TestPostgresAdmitIsDurable(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	const rounds = 3
	lost := 0
	require.NoError(t, migrations.Up(t.Context(), connect(t, "pgx", spare.URL())))
	for round := range int64(rounds) {
		db := connect(t, "pgx", spare.URL()+"&synchronous_commit=off")
		require.NoError(t, (&stdsql.Guard{DB: db}).Admit(t.Context(), tok(33+round, "h")))
		_, err := db.ExecContext(t.Context(), "SELECT fencepost.admit('plain', $1, 'h')", 33+round)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		spare.Crash()
		db = connect(t, "pgx", spare.URL())
		require.Equal(t, 33+round, one[int64](t, db, "SELECT number FROM fencepost.marks WHERE resource = 'account/42'"))
		if one[int64](t, db, "SELECT coalesce(max(number), 0) FROM fencepost.marks WHERE resource = 'plain'") < 33+round {
			lost++
		}
	}
	require.Positive(t, lost, "the twin, a plain admit, must be lost")
}
