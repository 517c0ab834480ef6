package migrations_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/migrations"
)

// hazard M1
func TestUpRefusesGaleraBeforeItMakesAnything(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", testenv.Galera(t, 1)[0])
	require.NoError(t, err)
	opened(t, db)
	err = onMySQL.Up(t.Context(), db)
	require.ErrorIs(t, err, guard.ErrUnfenced)
	require.ErrorContains(t, err, "migrations: mysql: guard: the database is not known to fence, nothing applied: Galera (MariaDB 10.11")
	require.Zero(t, one[int](t, db, "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()"))

	vouched := migrations.Set{Dialect: migrations.MySQL, DangerouslyTrustEngine: true}
	require.NoError(t, vouched.Up(t.Context(), db))
	require.NoError(t, vouched.Check(t.Context(), db))
	var found *migrations.CheckError
	require.ErrorAs(t, onMySQL.Check(t.Context(), db), &found)
	require.Len(t, found.Findings, 1)
	require.Contains(t, found.Findings[0], " is not known to fence: a share lock is one node's, ")
}
