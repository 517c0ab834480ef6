package migrations_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

func TestSQL(t *testing.T) {
	t.Parallel()
	t.Run("is a plain script", func(t *testing.T) {
		t.Parallel()
		script, err := migrations.SQL()
		require.NoError(t, err)
		for text, in := range map[string]bool{
			`CREATE TABLE "fencepost".marks`: true, "+goose": false, `DROP TABLE "fencepost"`: false, `DROP FUNCTION "fencepost"`: false,
		} {
			require.Equal(t, in, strings.Contains(script, text), text) // Contains would print the script
		}
	})
	t.Run("makes what Up makes", func(t *testing.T) {
		t.Parallel()
		f := newFence(t)
		plain := fence{f.Pool, f.schema + "_plain"}
		f.atEnd(t, "DROP SCHEMA IF EXISTS "+plain.schema+" CASCADE")
		script, err := migrations.Set{Schema: plain.schema}.SQL()
		require.NoError(t, err)
		_, err = f.Exec(t.Context(), script)
		require.NoError(t, err)
		require.Equal(t, catalog(t, f), catalog(t, plain))
	})
	t.Run("works on SQLite", func(t *testing.T) {
		t.Parallel()
		script, err := migrations.Set{Dialect: migrations.SQLite}.SQL()
		require.NoError(t, err)
		db, _ := newSQLite(t)
		_, err = db.ExecContext(t.Context(), script)
		require.NoError(t, err)
		require.Zero(t, one[int](t, db, "SELECT count(*) FROM fencepost_marks"))
	})
}

// catalog describes the columns, checks, keys, functions and sequences of a
// fence, without goose's table.
func catalog(t *testing.T, f fence) string {
	t.Helper()
	text := get[string](t, f, f, `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT concat_ws(' ', c.relname, c.relkind, c.relpersistence, c.reloptions::text, attname, atttypid::regtype, attnotnull, attcollation) AS line
		  FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0
		 WHERE c.relnamespace = $1::text::regnamespace AND c.relname NOT LIKE 'fencepost_migrations%'
		UNION ALL SELECT conname || pg_get_constraintdef(oid)
		  FROM pg_constraint WHERE connamespace = $1::text::regnamespace AND conname NOT LIKE 'fencepost_migrations%'
		UNION ALL SELECT concat(pg_get_functiondef(oid), proacl) FROM pg_proc WHERE pronamespace = $1::text::regnamespace
		UNION ALL SELECT concat_ws(' ', c.relname, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin, seqcache, seqcycle)
		  FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
		 WHERE c.relnamespace = $1::text::regnamespace AND c.relname NOT LIKE 'fencepost_migrations%') x`, f.schema)
	require.Contains(t, text, "number_check")
	return strings.NewReplacer(f.schema, "fencepost").Replace(text)
}

func TestFSIsAFileSystem(t *testing.T) {
	t.Parallel()
	files, err := migrations.Set{Schema: "other"}.FS()
	require.NoError(t, err)
	require.NoError(t, fstest.TestFS(files, "00001_marks.sql", "00016_version.sql"))

	plain, err := migrations.Set{}.FS()
	require.NoError(t, err)
	text, err := fs.ReadFile(plain, "00001_marks.sql")
	require.NoError(t, err)
	same, err := migrations.FS.ReadFile("postgres/00001_marks.sql")
	require.NoError(t, err)
	require.Equal(t, string(same), string(text))
}
