package migrations_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

func TestUpDownUp(t *testing.T) {
	t.Parallel()
	t.Run("on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		db := newDatabase(t)
		db.SetMaxOpenConns(1) // neither may wait for a second connection
		ctx := t.Context()
		require.NoError(t, migrations.Down(ctx, db), "there is nothing to take back")
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM pg_namespace WHERE nspname = 'fencepost'"))

		_, err := db.ExecContext(ctx, "CREATE SCHEMA fencepost")
		require.NoError(t, err)
		before := things(t, db)
		require.NoError(t, migrations.Up(ctx, db))
		complete := things(t, db)
		require.Contains(t, complete, "marks")
		require.NoError(t, migrations.Check(ctx, db))
		role := newRole(t, db)
		_, err = db.ExecContext(ctx, "SELECT fencepost.admit('account/42', 5, 'a'); GRANT USAGE ON SCHEMA fencepost TO "+role)
		require.NoError(t, err)

		for range 2 {
			require.NoError(t, migrations.Down(ctx, db))
			require.Equal(t, before, things(t, db))
		}
		require.NoError(t, migrations.Up(ctx, db))
		require.Equal(t, complete, things(t, db))
		require.NoError(t, migrations.Check(ctx, db))
		require.True(t, one[bool](t, db, "SELECT has_schema_privilege($1, 'fencepost', 'USAGE')", role), "rights on the schema stay")
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM fencepost.marks"), "the marks do not")
	})
	sqlite, _ := newSQLite(t)
	mysql, _ := newMySQL(t)
	for name, c := range map[string]struct {
		set migrations.Set
		db  *sql.DB
		all string
	}{
		"on SQLite": {migrations.Set{Dialect: migrations.SQLite}, sqlite,
			"SELECT coalesce(group_concat(sql, '; '), '') FROM sqlite_master WHERE name NOT LIKE 'fencepost_migrations%' AND name NOT LIKE 'sqlite%'"},
		"on MariaDB": {onMySQL, mysql,
			`SELECT coalesce(group_concat(concat_ws(' ', t.engine, c.table_name, column_name, column_type, is_nullable, column_key) ORDER BY c.table_name, ordinal_position), '')
			   FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
			  WHERE table_schema = DATABASE() AND c.table_name <> 'fencepost_migrations'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			c.db.SetMaxOpenConns(1)
			require.NoError(t, c.set.Down(ctx, c.db), "there is nothing to take back")
			status, err := c.set.Status(ctx, c.db)
			require.NoError(t, err)
			require.True(t, status[0].AppliedAt.IsZero())

			require.NoError(t, c.set.Up(ctx, c.db))
			complete := one[string](t, c.db, c.all)
			require.Contains(t, complete, "fencepost_marks")
			for range 2 {
				require.NoError(t, c.set.Down(ctx, c.db))
				require.Empty(t, one[string](t, c.db, c.all))
			}
			require.NoError(t, c.set.Up(ctx, c.db))
			require.Equal(t, complete, one[string](t, c.db, c.all))
			require.NoError(t, c.set.Check(ctx, c.db))
		})
	}
}

// newRole makes a role that may log in, for as long as the test's database is
// there.
func newRole(t *testing.T, db *sql.DB) string {
	t.Helper()
	name := one[string](t, db, "SELECT 'fencepost_test_' || replace(gen_random_uuid()::text, '-', '')")
	_, err := db.ExecContext(t.Context(), "CREATE ROLE "+name+" LOGIN PASSWORD 'role'")
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), "DROP OWNED BY "+name+"; DROP ROLE "+name)
		require.NoError(t, err)
	})
	return name
}

// things describes all that a user can make in a database, in any schema, but
// for goose's table.
func things(t *testing.T, db *sql.DB) string {
	t.Helper()
	return one[string](t, db, `SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
		SELECT i.type || ' ' || i.identity || ' ' || coalesce(pg_get_functiondef(p.oid), '') || ' ' || coalesce(p.proacl::text, '')
		  FROM (SELECT classid, objid, objsubid FROM pg_depend UNION SELECT refclassid, refobjid, refobjsubid FROM pg_depend) d
		 CROSS JOIN pg_identify_object(d.classid, d.objid, d.objsubid) i
		  LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND p.prokind = 'f'
		 WHERE d.objid >= 16384 AND i.identity NOT LIKE '%fencepost_migrations%' AND i.identity NOT LIKE 'pg_toast%'
		   AND i.type NOT IN ('toast table', 'schema', 'type', 'composite type')) x (line)`)
}
