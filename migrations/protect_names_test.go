package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// hazard G13
func TestProtectedTablesOfAnyName(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	for _, name := range []string{
		`we"ird'; DROP TABLE x; --`, `a.b`, `select`, `Größe`, `$body$`, `%s %1$I`, `back\slash`, "new\nline", ` `, "UPPER",
		strings.Repeat("x", 63), strings.Repeat("x", 62) + "y", strings.Repeat("ß", 31), "fencepost_new", "resource", "tg_op",
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			schema := f.schema[:20] + name
			for len(schema) > 63 {
				r := []rune(schema)
				schema = string(r[:len(r)-1])
			}
			tab := pgx.Identifier{schema, name}.Sanitize()
			column := pgx.Identifier{name}.Sanitize()
			run(t, f, f, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
			f.atEnd(t, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
			run(t, f, f, "CREATE TABLE "+tab+" ("+column+" text)")
			for _, mode := range []string{"observe", "enforce"} {
				run(t, f, f, "SELECT fence.protect($1, $2, $3)", tab, "'x/' || "+column, mode)
			}
			insert := "INSERT INTO " + tab + " VALUES ('42')"
			got := unguarded(t, f.exec(ctx, f, insert))
			require.Equal(t, []string{schema, name}, []string{got.SchemaName, got.TableName})
			require.Contains(t, got.Detail, "resource x/42:")
			unguarded(t, f.exec(ctx, f, "TRUNCATE "+tab))
			require.NoError(t, f.guarded(t, insert, "x/42"))
			require.NoError(t, f.guarded(t, "UPDATE "+tab+" SET "+column+" = '43'; DELETE FROM "+tab, "x/42", "x/43"))
			tx := f.begin(t, "")
			run(t, f, tx, "SELECT fence.bypass($1, 'the test')", tab)
			run(t, f, tx, insert)
			require.NoError(t, tx.Commit(ctx))
			require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.protected() WHERE tab = $1::text::regclass AND incomplete = '{}'", tab))
			require.True(t, get[bool](t, f, f, "SELECT fence.unprotect($1)", tab))
			run(t, f, f, "DROP TABLE "+tab)
			run(t, f, f, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()) // which is empty
		})
	}
}

// Their functions' names are cut to the same 63 bytes.
func TestProtectedTablesWithNamesThatAreAlmostTheSame(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	long := strings.Repeat("x", 62)
	for _, last := range []string{"a", "b", "c"} {
		run(t, f, f, "CREATE TABLE fence."+long+last+" (id int)")
		f.protect(t, "fence."+long+last, "'"+last+"/' || id")
	}
	run(t, f, f, "CREATE FUNCTION fence.fencepost_taken(int) RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE TABLE fence.taken (id int)")
	f.protect(t, "fence.taken", "'taken/' || id")
	for table, resource := range map[string]string{long + "a": "a/1", long + "b": "b/1", long + "c": "c/1", "taken": "taken/1"} {
		require.Contains(t, unguarded(t, f.exec(t.Context(), f, "INSERT INTO fence."+table+" VALUES (1)")).Detail, "resource "+resource+":")
	}
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence."+long+"b')"))
	require.NoError(t, f.exec(t.Context(), f, "INSERT INTO fence."+long+"b VALUES (1)"))
	unguarded(t, f.exec(t.Context(), f, "INSERT INTO fence."+long+"a VALUES (1)"))
}

// The expression's columns are never taken for variables of the trigger.
func TestProtectedTableWithColumnsCalledLikeVariables(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	columns := []string{"new", "old", "tg_op", "found", "resource", "tab", "reported", "tg_relid", "select", "end", "fencepost_new", "fencepost_old", "sqlstate", "Case"}
	var defs, parts []string
	for _, c := range columns {
		quoted := pgx.Identifier{c}.Sanitize()
		defs, parts = append(defs, quoted+" text DEFAULT "+"'"+c+"'"), append(parts, quoted)
	}
	run(t, f, f, "CREATE TABLE fence.odd (id int, "+strings.Join(defs, ", ")+")")
	f.protect(t, "fence.odd", strings.Join(parts, " || ' ' || "))
	all := strings.Join(columns, " ")
	require.Contains(t, unguarded(t, f.exec(t.Context(), f, "INSERT INTO fence.odd VALUES (1)")).Detail, "resource "+all+":")
	require.NoError(t, f.guarded(t, "INSERT INTO fence.odd VALUES (1); UPDATE fence.odd SET id = 2; DELETE FROM fence.odd", all))
}
