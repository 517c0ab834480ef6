package migrations_test

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/migrations"
)

// asRole connects as a role that has only the given grants. "fence.role" in them is the
// role.
func asRole(t *testing.T, f fence, grants string) *pgx.Conn {
	t.Helper()
	role := f.named("fence.role")
	require.NoError(t, f.exec(t.Context(), f, "CREATE ROLE "+role))
	f.atEnd(t, "DROP OWNED BY "+role+"; DROP ROLE "+role)
	if grants != "" {
		require.NoError(t, f.exec(t.Context(), f, grants+" TO "+role))
	}
	conn := f.conn(t)
	require.NoError(t, f.exec(t.Context(), conn, "SET ROLE "+role))
	return conn
}

// hazard G9
// hazard G21
func TestRoleOfTheApplication(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
	for _, may := range []string{
		"SELECT fence.admit('account/42', 5, 'a')",
		"SELECT fence.admit('account/42', 6, 'a', 1000)",
		"SELECT fence.report_only('account/42', 5, 'a')",
		"SELECT fence.mint('account/42', 'a')",
		"SELECT fence.evict('account/42', 6), fence.number_at(now())",
		"SELECT fence.transaction_fate('1 1 ' || fence.session_incarnation()), fence.end_transaction('1 1')",
		"SELECT fence.insert_unit('account/42', 'k', sha256(''), '1 hour'), fence.set_result('account/42', 'k', 'x'), fence.find_unit('account/42', 'k', sha256(''))",
		"SELECT fence.acquire('account/42', 'a', '1 hour')",
		"SELECT fence.renew('account/42', 'a', '1 hour')",
		"SELECT fence.release('account/42', 'a')",
		"SELECT fence.try_acquire('account/42', 'a', '1 hour', true), fence.try_acquire('account/42', 'b', '1 hour', true, 0, 0, '1 s'), fence.leave_queue('account/42', 'a')",
		"SELECT fence.renew_all('{account/42}', '{b}', '{1000000}'), fence.recover('account/42', 1)",
	} {
		require.NoError(t, f.exec(ctx, conn, may), may)
	}
	for _, mayNot := range []string{
		"SELECT * FROM fence.marks", "INSERT INTO fence.marks VALUES ('x', 1, 'a')", "UPDATE fence.marks SET number = 1", "DELETE FROM fence.marks", "TRUNCATE fence.marks",
		"SELECT * FROM fence.incarnation", "DELETE FROM fence.incarnation", "SELECT * FROM fence.units", "DELETE FROM fence.units", "SELECT fence.prune_units()", "SELECT * FROM fence.leases", "INSERT INTO fence.leases VALUES ('x', 1, 'a', now())", "UPDATE fence.leases SET number = 1", "DELETE FROM fence.leases", "SELECT * FROM fence.waiters",
		"SELECT nextval('fence.numbers')", "SELECT setval('fence.numbers', 1)", "ALTER SEQUENCE fence.numbers CACHE 10",
		"SELECT fence.admit_slow('x', 5, 'a', 0)", "SELECT fence.lock_lease('account/42')", "SELECT fence.grant_lease('x', 'a', '1 s', 1, false, false)", "SELECT fence.claim('x', 'a', 1)",
		"SELECT fence.enqueue('x', 'a', '1 s', false, 0, 0, '1 s', now())", "SELECT fence.release_slow('x', 'a')", "SELECT fence.queue_head('x', 'a')",
		"SELECT fence.lock_exclusive('x', 0)", "SELECT fence.record_admission('x')", "SELECT fence.commit_durably()", "SELECT fence.next_number(1)",
		"SELECT fence.prune(10)", "SELECT fence.prune(10, 1)", "SELECT fence.reset('account/42')", "SELECT fence.reset('account/42', 1)",
		"SELECT * FROM fence.floor", "UPDATE fence.floor SET number = 0", "DELETE FROM fence.floor", "TRUNCATE fence.floor",
		"INSERT INTO fence.floor DEFAULT VALUES", "DROP TABLE fence.floor", "ALTER TABLE fence.floor SET UNLOGGED",
		"CREATE FUNCTION fence.mine() RETURNS void LANGUAGE sql AS ''",
	} {
		require.Equal(t, "42501", code(f.exec(ctx, conn, mayNot)), mayNot)
	}
	require.Equal(t, "acquire add_mark_columns admit bypass check_key check_row end_transaction evict find_unit incarnation insert_unit leave_queue lock_key mark_number micros mint number_at "+
		"protect protect_check protect_expression protect_triggers protected recover refusing_mark release renew renew_all report_only session_incarnation set_result text_problem transaction_fate try_acquire unprotect version", get[string](t, f, conn,
		"SELECT string_agg(proname, ' ' ORDER BY proname) FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND has_function_privilege(oid, 'EXECUTE')", f.schema))
	refused(t, f.admit(ctx, conn, "account/42", 6, "b"), "ZF001", get[string](t, f, f, "SELECT number || ' ' || holder FROM fence.marks"))
}

func TestRoleWithoutUsage(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	conn := asRole(t, f, "")
	for _, call := range []string{"admit('x', 5, 'a')", "mint('x', 'a')", "acquire('x', 'a', '1 s')", "evict('x', 1)"} {
		require.Equal(t, "42501", code(f.exec(t.Context(), conn, "SELECT fence."+call)), call)
	}
}

// Functions that run as the owner must not call the caller's functions and operators.
func TestCallersSearchPathIsNotUsed(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 6, "b"))
	conn := asRole(t, f, "GRANT USAGE, CREATE ON SCHEMA "+f.schema)
	require.NoError(t, f.exec(ctx, conn, `
		CREATE FUNCTION fence.mine(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mine: %', current_user; END $$;
		CREATE FUNCTION fence.mine(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'mine: %', current_user; END $$;
		CREATE OPERATOR fence.= (LEFTARG = text, RIGHTARG = text, FUNCTION = fence.mine);
		CREATE OPERATOR fence.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = fence.mine);
		CREATE OPERATOR fence.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = fence.mine)`))
	require.NoError(t, f.exec(ctx, conn, "SELECT set_config('search_path', $1, false)", pgx.Identifier{f.schema}.Sanitize()+", pg_catalog"))
	refused(t, f.admit(ctx, conn, "account/42", 5, "a"), "ZF001", "6 b")
	require.NoError(t, f.admit(ctx, conn, "account/42", 6, "b"))
	require.NoError(t, f.exec(ctx, conn, "SELECT fence.acquire('account/42', 'a', '1 hour'), fence.renew('account/42', 'a', '1 hour'), fence.release('account/42', 'a'), fence.mint('account/42', 'a')"))
}

// A role as managed services provide it: it owns its database and is no superuser.
func TestOrdinaryOwner(t *testing.T) {
	t.Parallel()
	ctx, admin := t.Context(), newDatabase(t)
	owner, app, operator := newRole(t, admin), newRole(t, admin), newRole(t, admin)
	database := one[string](t, admin, "SELECT current_database()")
	must(t, admin, "ALTER DATABASE "+database+" OWNER TO "+owner)
	t.Cleanup(func() { // before the role is dropped
		_, err := admin.ExecContext(context.WithoutCancel(ctx), "ALTER DATABASE "+database+" OWNER TO CURRENT_USER")
		require.NoError(t, err)
	})
	as := func(role string) *pgx.Conn {
		return connected(t, func(config *pgx.ConnConfig) { config.Database, config.User, config.Password = database, role, "role" })
	}
	db := opened(t, stdlib.OpenDB(*as(owner).Config()))

	require.NoError(t, migrations.Set{}.Up(ctx, db))
	require.NoError(t, migrations.Set{}.Check(ctx, db))
	must(t, db, "GRANT USAGE ON SCHEMA fencepost TO "+app+", "+operator)

	sleeper, successor, stranger := as(app), as(app), as(operator)
	sleep := func(conn *pgx.Conn) {
		_, err := conn.Exec(ctx, "SELECT fencepost.admit('account/42', 5, 'a')")
		require.NoError(t, err)
		_, err = conn.Exec(ctx, "BEGIN; SELECT fencepost.admit('account/42', 5, 'a')")
		require.NoError(t, err)
	}
	sleep(sleeper)
	_, err := stranger.Exec(ctx, "SELECT fencepost.evict('account/42', 6)")
	require.Equal(t, "42501", code(err), "another role's session")
	var ended int
	require.NoError(t, successor.QueryRow(ctx, "SELECT fencepost.evict('account/42', 6)").Scan(&ended))
	require.Equal(t, 1, ended, "a session of its own role needs no right")
	// A signal ends the session, which keeps its lock until it handles the signal.
	pgtest.Await(t, func() bool {
		return one[int](t, admin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0
	})

	must(t, admin, "GRANT pg_signal_backend TO "+operator)
	sleep(as(app))
	// hazard P9: the session may be waiting for a synchronous standby.
	_, err = stranger.Exec(ctx, "SELECT fencepost.evict('account/42', 6)")
	require.ErrorContains(t, err, "may not see whether an older writer waits for a standby")
	require.Equal(t, "42501", code(err))
	must(t, admin, "GRANT pg_read_all_stats TO "+operator)
	require.NoError(t, stranger.QueryRow(ctx, "SELECT fencepost.evict('account/42', 6)").Scan(&ended))
	require.Equal(t, 1, ended)

	require.False(t, one[bool](t, admin, "SELECT has_table_privilege($1, 'fencepost.marks', 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')", app))
	require.NoError(t, migrations.Set{}.Down(ctx, db))
	require.NoError(t, migrations.Set{}.Up(ctx, db))
}

// admit runs as its owner with the caller's search_path. Here that begins with a schema
// that has the name of everything in pg_catalog that admit and its callees mention. Each
// of these reports its use. Each twin omits the schema before names, in one function.
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
		for function, number := range map[string]int64{"naive_admit": 5, "naive_record_admission": 5, "naive_refuse": 4, "naive_key": 5} {
			require.ErrorContains(t, admit(conn, function, number, "a", -1), "hijacked as "+owner, function)
		}
	})
}

// shadow creates the schema, and the twins of admit, one for each function.
func shadow(t *testing.T, f fence) {
	t.Helper()
	name := f.named("fence.shadow")
	require.NoError(t, f.exec(t.Context(), f, "CREATE SCHEMA "+name+"; GRANT USAGE ON SCHEMA "+name+" TO PUBLIC"))
	f.atEnd(t, "DROP SCHEMA "+name+" CASCADE")
	require.NoError(t, f.exec(t.Context(), f, f.named(`
		DO $do$
		DECLARE
			texts text := (SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = '`+f.schema+`'::regnamespace AND proname IN ('admit', 'record_admission', 'refuse', 'lock_key'));
			x record;
			made int := 0;
		BEGIN
			FOR x IN SELECT p.proname, pg_get_function_arguments(p.oid) args, pg_get_function_result(p.oid) result
			           FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND texts ~ ('\m' || p.proname || '\M') LOOP
				BEGIN
					EXECUTE format('CREATE FUNCTION fence.shadow.%I(%s) RETURNS %s LANGUAGE plpgsql AS $$ BEGIN RAISE ''hijacked as %%'', current_user; END $$', x.proname, x.args, x.result);
					made := made + 1;
				EXCEPTION WHEN OTHERS THEN  -- pseudo-types: such a function cannot be made
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
			           FROM pg_proc p WHERE p.pronamespace = '`+f.schema+`'::regnamespace AND p.proname IN ('admit', 'record_admission', 'refuse', 'lock_key') LOOP
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

func TestSQL(t *testing.T) {
	t.Parallel()
	t.Run("is a plain script", func(t *testing.T) {
		t.Parallel()
		script, err := migrations.Set{}.SQL()
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
}

// catalog returns a description of the columns, checks, keys, functions and sequences of
// a fence, without goose's table.
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
	require.NoError(t, fstest.TestFS(files, "00001_marks.sql", "00010_admin.sql"))

	plain, err := migrations.Set{}.FS()
	require.NoError(t, err)
	text, err := fs.ReadFile(plain, "00001_marks.sql")
	require.NoError(t, err)
	same, err := os.ReadFile("postgres/00001_marks.sql")
	require.NoError(t, err)
	require.Equal(t, string(same), string(text))
}
