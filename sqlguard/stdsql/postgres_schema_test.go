package stdsql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// hazard G13
func TestPostgresSchemasOfAnyName(t *testing.T) {
	t.Parallel()
	db := newPostgres(t)
	for _, prefix := range []string{`we"ird; drop`, `o'brien`, `a.b`, `Größe`, `$1`, `back\slash`, `"fencepost".`, `?`} {
		name := prefix + db.schema
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		require.NoError(t, migrations.Set{Schema: name}.Up(t.Context(), db.DB))
		g := &stdsql.Guard{DB: db.DB, Schema: name}
		ctx := holding(t, 33, "a")
		require.NoError(t, g.Update(ctx, account, add(ctx, 1)))
		require.Equal(t, 33, one[int](t, db, "SELECT number FROM "+quoted+".marks"))
		run(t, db, "DROP SCHEMA "+quoted+" CASCADE")
		require.ErrorContains(t, g.Update(ctx, account, add(ctx, 1)), "lacks what package migrations creates")
	}
}

// The package's Update is for the default schema of a PostgreSQL database.
func TestUpdateOfThePackage(t *testing.T) {
	t.Parallel()
	db := connect(t, "pgx", testenv.Database(t))
	require.NoError(t, migrations.Up(t.Context(), db))
	run(t, db, "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER)")
	run(t, db, "INSERT INTO accounts VALUES (42, 100)")
	ctx, zombie := holding(t, 33, "a"), holding(t, 32, "b")
	require.NoError(t, stdsql.Update(ctx, db, account, add(ctx, 10)))
	require.ErrorIs(t, stdsql.Update(zombie, db, account, add(zombie, 10)), guard.ErrStale)
	require.Equal(t, 110, balance(t, db))
	require.NoError(t, db.Close())
}
