package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// admit runs as its owner with the caller's search_path. Here that begins with a
// schema that has everything pg_catalog has under the same name, as far as admit
// and what it calls mention it at all, and each of these gives itself away. The
// twins lack the schemas before the names, in one function each.
func TestNothingIsFoundInTheCallersPath(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	shadow(t, f)
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	admit := func(on db, function string, number int64, holder string, bound int) error {
		return f.exec(ctx, on, "SELECT fence."+function+"($1, $2, $3, $4)", "account/42", number, holder, bound)
	}
	all := func(t *testing.T) {
		t.Helper()
		require.Equal(t, get[int64](t, f, f, "SELECT fence.lock_key('account/42')"), get[int64](t, f, conn, "SELECT fence.lock_key('account/42')"))
		for _, bound := range []int{-1, 0, 1000} {
			for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
				tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
				require.NoError(t, err)
				require.NoError(t, admit(tx, "admit", 5, "a", bound))
				require.Equal(t, "\n"+f.schema+"/account/42\n", get[string](t, f, tx, "SHOW fencepost.admitted"))
				require.NoError(t, tx.Commit(ctx))
			}
			refused(t, admit(conn, "admit", 4, "a", bound), "ZF001", "5 a")
			refused(t, admit(conn, "admit", 5, "b", bound), "ZF002", "5 a")
		}
		require.Equal(t, "ZF004", code(admit(conn, "admit", 6, "b", -1)))
	}
	path := f.named("SET search_path = fence.shadow, pg_catalog")
	t.Run("in a session that has always had that path", func(t *testing.T) {
		require.NoError(t, f.exec(ctx, conn, path))
		all(t)
	})
	t.Run("in a session that changes it", func(t *testing.T) {
		require.NoError(t, f.exec(ctx, conn, "DISCARD PLANS; SET search_path = pg_catalog"))
		all(t)
		require.NoError(t, f.exec(ctx, conn, path))
		all(t)
	})
	t.Run("the twin finds what it should not", func(t *testing.T) {
		owner := get[string](t, f, f, "SELECT current_user")
		for function, number := range map[string]int64{"naive_admit": 5, "naive_remember": 5, "naive_refuse": 4, "naive_key": 5} {
			require.ErrorContains(t, admit(conn, function, number, "a", -1), "hijacked as "+owner, function)
		}
	})
}

// shadow makes the schema, and the twins of admit: one for each function.
func shadow(t *testing.T, f fence) {
	t.Helper()
	name := f.named("fence.shadow")
	require.NoError(t, f.exec(t.Context(), f, "CREATE SCHEMA "+name+"; GRANT USAGE ON SCHEMA "+name+" TO PUBLIC"))
	f.atEnd(t, "DROP SCHEMA "+name+" CASCADE")
	require.NoError(t, f.exec(t.Context(), f, f.named(`
		DO $do$
		DECLARE
			texts text := (SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = '`+f.schema+`'::regnamespace AND proname IN ('admit', 'remember', 'refuse', 'lock_key'));
			x record;
			made int := 0;
		BEGIN
			FOR x IN SELECT p.proname, pg_get_function_arguments(p.oid) args, pg_get_function_result(p.oid) result
			           FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND texts ~ ('\m' || p.proname || '\M') LOOP
				BEGIN
					EXECUTE format('CREATE FUNCTION fence.shadow.%I(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE ''hijacked as %%'', current_user; END $$', x.proname, x.args, x.result);
					made := made + 1;
				EXCEPTION WHEN OTHERS THEN  -- pseudo-types: nobody can make such a function
				END;
			END LOOP;
			ASSERT made > 5;
			FOR x IN SELECT o.oid, o.oprname, o.oprleft::regtype l, o.oprright::regtype r, o.oprresult::regtype result FROM pg_operator o
			          WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b'
			            AND o.oprleft IN ('text'::regtype, 'int4'::regtype, 'int8'::regtype) AND o.oprright IN ('text'::regtype, 'int4'::regtype, 'int8'::regtype) LOOP
				EXECUTE format('CREATE FUNCTION fence.shadow.o%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE ''hijacked as %%'', current_user; END $$', x.oid, x.l, x.r, x.result);
				EXECUTE format('CREATE OPERATOR fence.shadow.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = fence.shadow.o%s)', x.oprname, x.l, x.r, x.oid);
			END LOOP;
			CREATE DOMAIN fence.shadow.text AS pg_catalog.text CHECK (false);
			CREATE DOMAIN fence.shadow.int8 AS pg_catalog.int8 CHECK (false);
			CREATE DOMAIN fence.shadow."bigint" AS pg_catalog.int8 CHECK (false);
			CREATE DOMAIN fence.shadow.int4 AS pg_catalog.int4 CHECK (false);
			CREATE DOMAIN fence.shadow.bool AS pg_catalog.bool CHECK (false);
			CREATE COLLATION fence.shadow."C" (provider = icu, locale = 'und', deterministic = false);

			FOR x IN SELECT p.proname, replace(regexp_replace(replace(pg_get_functiondef(p.oid), '.' || p.proname || '(', '.bare_' || p.proname || '('),
			                'OPERATOR\(pg_catalog\.([^)]*)\)', '\1', 'g'), 'pg_catalog.', '') AS bare
			           FROM pg_proc p WHERE p.pronamespace = '`+f.schema+`'::regnamespace AND p.proname IN ('admit', 'remember', 'refuse', 'lock_key') LOOP
				EXECUTE x.bare;
				IF x.proname = 'admit' THEN
					ALTER FUNCTION `+f.schema+`.bare_admit RENAME TO naive_admit;
				ELSE
					EXECUTE (SELECT replace(replace(pg_get_functiondef(p.oid), '.admit(', '.naive_' || replace(x.proname, 'lock_', '') || '('), '.' || x.proname || '(', '.bare_' || x.proname || '(')
					           FROM pg_proc p WHERE p.pronamespace = '`+f.schema+`'::regnamespace AND p.proname = 'admit');
				END IF;
			END LOOP;
		END
		$do$`)))
}
