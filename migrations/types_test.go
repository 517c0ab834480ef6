package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PL/pgSQL looks up the types of DECLARE once in a session, for whoever has the
// function compiled first. The caller's types must not get into what then runs
// as the owner.
func TestCallersTypesAreNotUsed(t *testing.T) {
	t.Parallel()
	for way, compile := range map[string][]string{
		"a helper that the caller calls": {
			"SELECT fence.naive_helper()",
			"SELECT fence.admit_slow('x', 1, 'a', 0)", "SELECT fence.lock_alone('x', 0)", "SELECT fence.lock_lease('x')",
			"SELECT fence.draw_number(1)", "SELECT fence.next_number(1)", "SELECT fence.commit_durably()", "SELECT fence.remember('x')",
		},
		// Its arguments have no collation: what is compiled runs where a call's have none in common.
		"a function that the caller has validated": {
			`SELECT plpgsql_validator(p.oid) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
			  WHERE p.pronamespace = to_regnamespace(rtrim('fence.', '.')) AND l.lanname = 'plpgsql' AND has_function_privilege(p.oid, 'EXECUTE')`,
		},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			lowerTheMark(t, f, compile)
			require.Equal(t, "50 b", get[string](t, f, f, "SELECT number || ' ' || holder FROM fence.marks WHERE resource = 'account/42'"))
		})
		t.Run(way+", the naive twin", func(t *testing.T) {
			t.Parallel()
			f := newFence(t)
			require.NoError(t, f.exec(t.Context(), f, `
				CREATE FUNCTION fence.naive_helper() RETURNS void LANGUAGE plpgsql AS $$ DECLARE x text := ''; BEGIN END $$;
				CREATE FUNCTION fence.naive(r text, h text) RETURNS void LANGUAGE plpgsql
				SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ DECLARE x text := r; BEGIN PERFORM fence.naive_helper(); END $$`))
			lowerTheMark(t, f, compile)
			require.Equal(t, "1 evil", get[string](t, f, f, "SELECT number || ' ' || holder FROM fence.marks WHERE resource = 'account/42'"))
		})
	}
}

// lowerTheMark tries to lower the mark of account/42, as a role that may use the
// schema: types of its own, whose check lowers the mark where the owner runs it,
// get compiled in, and then everything that runs as the owner is called.
func lowerTheMark(t *testing.T, f fence, compile []string) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 50, "b"))
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	require.NoError(t, f.exec(ctx, conn, f.named(`
		CREATE FUNCTION pg_temp.evil() RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			IF current_user <> 'fence.role' THEN
				EXECUTE 'UPDATE ' || quote_ident('`+f.schema+`') || '.marks SET number = 1, holder = ''evil''';
			END IF;
			RETURN true;
		END $$`)))
	for _, name := range []string{"text", "timestamptz", "oid", "regclass", `"interval"`, "int8", "int4", "bool", `"bigint"`, `"integer"`} {
		base := map[string]string{`"bigint"`: "int8", `"integer"`: "int4"}[name]
		if base == "" {
			base = name
		}
		require.NoError(t, f.exec(ctx, conn, "CREATE DOMAIN pg_temp."+name+" AS pg_catalog."+base+" CHECK (pg_temp.evil())"))
	}
	const args = ` FROM (SELECT 'y'::pg_catalog.text COLLATE "C" AS r, 'a'::pg_catalog.text COLLATE "POSIX" AS h) x`
	for _, text := range append(compile,
		"SELECT fence.naive('y', 'a')", "SELECT fence.admit('y', 1, 'a')", "SELECT fence.admit('y', 2, 'a', 1000)", "SELECT fence.observe('y', 1, 'a')",
		"SELECT fence.mint('y', 'a', 1000)", "SELECT fence.acquire('y', 'a', '1 minute')", "SELECT fence.renew('y', 'a', '1 minute')", "SELECT fence.release('y', 'a')",
		"SELECT fence.naive(r, h)"+args, "SELECT fence.admit(r, 900000000000001, h)"+args, "SELECT fence.mint(r, h, 1000)"+args,
		"SELECT fence.acquire(r, h, '1 minute')"+args, "SELECT fence.renew(r, h, '1 minute')"+args, "SELECT fence.release(r, h)"+args,
	) {
		if err := f.exec(ctx, conn, text); err != nil {
			require.Contains(t, []string{"42501", "42883", "22004"}, code(err), "%s: %v", text, err)
		}
	}
	require.NoError(t, f.exec(ctx, conn, "DISCARD TEMP"))
}
