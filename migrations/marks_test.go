package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

// hazard G14
func TestNumbersCompareAsNumbers(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.admit(ctx, f, "account/42", 9, "a"))
	require.NoError(t, f.admit(ctx, f, "account/42", 10, "b"))
	refused(t, f.admit(ctx, f, "account/42", 9, "a"), "ZF001", "10 b")

	require.NoError(t, f.exec(ctx, f, "CREATE TABLE fence.naive (number text); INSERT INTO fence.naive VALUES ('10')"))
	tag, err := f.Exec(ctx, f.sql("UPDATE fence.naive SET number = '9' WHERE number < '9'"))
	require.NoError(t, err)
	require.Equal(t, int64(1), tag.RowsAffected(), "the twin shows nothing: as text, 9 is newer than 10")
}

func TestNamesCompareBytewise(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, "CREATE COLLATION fence.loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"))
	names := []string{"account/42", "account/42 ", "Account/42", "account/４２", "gro\u00dfe", "grosse", "e\u0301", "\u00e9"}
	for i, name := range names {
		require.NoError(t, f.admit(t.Context(), f, name, int64(i+1), "a"), "%q", name)
	}
	for i, name := range names {
		n, _ := f.mark(t, name)
		require.Equal(t, int64(i+1), n, "%q", name)
	}
	require.Equal(t, len(names), get[int](t, f, f, "SELECT count(DISTINCT fence.lock_key(resource)) FROM fence.marks"))
	require.True(t, get[bool](t, f, f, "SELECT fence.lock_key('Account/42' COLLATE fence.loose) <> fence.lock_key('account/42' COLLATE fence.loose)"))
	require.Equal(t, "42P22", code(f.exec(t.Context(), f, "SELECT fence.admit('account/42', 1, 'A' COLLATE fence.loose)")), "a caller cannot loosen it")
}

// hazard G9
func TestMarksAreLogged(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.Equal(t, "p {fillfactor=50}", get[string](t, f, f,
		"SELECT concat_ws(' ', relpersistence, reloptions::text) FROM pg_class WHERE oid = $1::text::regclass", f.sql("fence.marks")))
}

// rowsTable creates a table with a thousand rows, and returns a function that returns the
// table's file.
func rowsTable(t *testing.T, f fence) (file func() int) {
	t.Helper()
	require.NoError(t, f.exec(t.Context(), f, "DROP TABLE IF EXISTS fence.rows; CREATE TABLE fence.rows (id bigint PRIMARY KEY, n text); INSERT INTO fence.rows SELECT i, 'x' FROM generate_series(1, 1000) i"))
	return func() int { return get[int](t, f, f, "SELECT pg_relation_filenode('fence.rows')::bigint") }
}

// shape returns a table's columns from the third on.
func shape(t *testing.T, f fence, table string) string {
	t.Helper()
	return get[string](t, f, f, `SELECT coalesce(string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), NULLIF(attcollation, 0)::regcollation,
		CASE WHEN attnotnull THEN 'not null' END, pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum), '')
		FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
		WHERE attrelid = $1::text::regclass AND attnum > 2 AND NOT attisdropped`, f.sql(table))
}

func TestAddMarkColumns(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	const both = `last_token bigint not null 0, last_holder text "C" not null ''::text`
	add := "SELECT fence.add_mark_columns('fence.rows')"
	t.Run("writes no row, and nothing at all if the columns exist", func(t *testing.T) {
		file := rowsTable(t, f)
		before := file()
		require.NoError(t, f.exec(t.Context(), f, add))
		require.Equal(t, both, shape(t, f, "fence.rows"))
		require.Equal(t, before, file(), "the table was rewritten")
		require.Equal(t, 1000, get[int](t, f, f, "SELECT count(*) FROM fence.rows WHERE last_token = 0 AND last_holder = ''"))
		tx := f.begin(t, pgx.ReadCommitted) // a reader blocks ALTER TABLE, but not this function
		require.NoError(t, f.exec(t.Context(), tx, "SELECT FROM fence.rows"))
		require.NoError(t, f.exec(t.Context(), f, add))
		require.Equal(t, both, shape(t, f, "fence.rows"))

		require.NoError(t, f.exec(t.Context(), tx, "ROLLBACK"))
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.rows ADD fresh bigint DEFAULT random()"))
		require.NotEqual(t, before, file(), "the twin, a default that is not constant, must rewrite it")
	})
	t.Run("adds what is missing, by any name", func(t *testing.T) {
		rowsTable(t, f)
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.rows ADD fence bigint"))
		require.NoError(t, f.exec(t.Context(), f, `SELECT fence.add_mark_columns('fence.rows', number => 'fence', holder => 'who"; DROP TABLE x; --')`))
		require.Equal(t, `fence bigint, who"; DROP TABLE x; -- text "C" not null ''::text`, shape(t, f, "fence.rows"))
	})
	t.Run("reports a column of another type, and changes nothing", func(t *testing.T) {
		rowsTable(t, f)
		require.NoError(t, f.exec(t.Context(), f, "ALTER TABLE fence.rows ADD last_holder varchar(10)"))
		err := f.exec(t.Context(), f, add)
		require.Equal(t, "42804", code(err))
		require.ErrorContains(t, err, "last_holder is character varying(10), not text")
		require.Equal(t, "last_holder character varying(10) \"default\"", shape(t, f, "fence.rows"))
		require.Error(t, f.exec(t.Context(), f, "SELECT fence.add_mark_columns('fence.rows', 'one', 'one')"))
	})
	t.Run("reaches the partitions", func(t *testing.T) {
		require.NoError(t, f.exec(t.Context(), f, `DROP TABLE IF EXISTS fence.rows; CREATE TABLE fence.rows (id bigint PRIMARY KEY, n text) PARTITION BY RANGE (id);
			CREATE TABLE fence.part PARTITION OF fence.rows FOR VALUES FROM (0) TO (10)`))
		require.NoError(t, f.exec(t.Context(), f, add))
		require.Equal(t, both, shape(t, f, "fence.part"))
	})
	t.Run("runs with the rights of its caller", func(t *testing.T) {
		rowsTable(t, f)
		conn := asRole(t, f, "GRANT USAGE ON SCHEMA "+f.schema)
		require.Equal(t, "42501", code(f.exec(t.Context(), conn, add)))
	})
}

func TestRefusing(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	refusing := func(number int64, holder string) string {
		return get[string](t, f, f, "SELECT coalesce((SELECT concat_ws(' ', number, holder) FROM fence.refusing_mark('account/42', $1, $2)), 'nothing')", number, holder)
	}
	require.Equal(t, "nothing", refusing(1, "a"))
	require.NoError(t, f.admit(t.Context(), f, "account/42", 33, "a"))
	for number, want := range map[int64]string{32: "33 a", 33: "nothing", 34: "nothing"} {
		require.Equal(t, want, refusing(number, "a"))
	}
	require.Equal(t, "33 a", refusing(33, "b"))
	require.NoError(t, f.exec(t.Context(), f, "DELETE FROM fence.marks; UPDATE fence.floor SET number = 40"))
	require.Equal(t, "40 ", refusing(39, "a"))
	require.Equal(t, "nothing", refusing(40, "a"))
}

// The text of a refusal is for people, and its DETAIL for programs: docs/run.md has the form.
func TestARefusalNamesTheMarkAndTheResource(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	rowsTable(t, f)
	require.NoError(t, f.exec(t.Context(), f, "SELECT fence.admit('account/42', 34, 'b c'); UPDATE fence.floor SET number = 40"))
	for query, want := range map[string]string{
		"admit('account/42', 33, 'a')":                                  "fencepost: stale token of account/42: overtaken by #34 of b c|34 b c\naccount/42",
		"admit('account/42', 34, 'a')":                                  "fencepost: a token of account/42 collides: b c has the same number, #34|34 b c\naccount/42",
		"admit('account/7', 39, 'a')":                                   "fencepost: stale token of account/7: below the floor, #40|40 \naccount/7",
		"admit('account/42', 33, 'a', -1)":                              "fencepost: stale token of account/42: overtaken by #34 of b c|34 b c\naccount/42",
		"check_row('fence.rows', 'id', '42', '42', 34, 'b c', 33, 'a')": "fencepost: stale token of the row of key '42': overtaken by #34 of b c|34 b c",
		"check_row('fence.rows', 'id', '42', '42', 34, 'b c', 34, 'a')": "fencepost: a token of the row of key '42' collides: b c has the same number, #34|34 b c",
	} {
		var refusal *pgconn.PgError
		require.ErrorAs(t, f.exec(t.Context(), f, "SELECT fence."+query), &refusal)
		require.Equal(t, want, refusal.Message+"|"+refusal.Detail, query)
	}
}

func TestCheckRow(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	check := func(key, wanted string, n any, o any) error {
		return f.exec(t.Context(), f, "SELECT fence.check_row('fence.rows', 'id', $1, $2, $3, $4, 33, 'a')", key, wanted, n, o)
	}
	rowsTable(t, f)
	require.NoError(t, check("42", "42", 33, "a"))
	require.Equal(t, "55000", code(check("42", "42", nil, nil)), "the row has not taken the mark")
	require.Equal(t, "55000", code(check("42", "42", 32, "z")))
	refused(t, check("42", "42", 33, "b"), "ZF002", "33 b")
	refused(t, check("42", "42", 34, "b"), "ZF001", "34 b")
	require.Equal(t, "22023", code(check("42", "042", 33, "a")))
	require.Equal(t, "22023", code(check("42", "42 ", 33, "a")))
	for wanted, want := range map[string]string{"42": "", "042": "22023", "4 2": "22P02"} { // no row
		err := f.exec(t.Context(), f, "SELECT fence.check_row('fence.rows', 'id', NULL, $1, NULL, NULL, 33, 'a')", wanted)
		require.Equal(t, want, code(err), wanted)
	}
}

// hazard G19: a type that is not on the allowlist is refused, whatever its text is.
func TestCheckRowOfATypeThatIsNotKnown(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, `CREATE TYPE fence.loose;
		CREATE FUNCTION fence.loose_in(cstring) RETURNS fence.loose LANGUAGE internal IMMUTABLE STRICT AS 'textin';
		CREATE FUNCTION fence.loose_out(fence.loose) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout';
		CREATE TYPE fence.loose (INPUT = fence.loose_in, OUTPUT = fence.loose_out, LIKE = text, CATEGORY = 'S'); -- as citext is made
		CREATE TYPE fence.pair AS (a int, b int)`))
	for _, kind := range []string{"fence.loose", "fence.pair", "tsvector", "xml", "pg_lsn", "point", "regclass", `"char"`} {
		require.NoError(t, f.exec(t.Context(), f, "CREATE TABLE fence.odd (id "+kind+")"))
		err := f.exec(t.Context(), f, "SELECT fence.check_row('fence.odd', 'id', 'a', 'a', 33, 'a', 33, 'a')")
		require.Equal(t, "42804", code(err), kind)
		require.NoError(t, f.exec(t.Context(), f, "DROP TABLE fence.odd"))
	}
	rowsTable(t, f)
	for _, name := range []string{"ctid", "nobody"} {
		require.Equal(t, "42804", code(f.exec(t.Context(), f, "SELECT fence.check_key('fence.rows', $1)", name)), name)
	}
	require.NotEmpty(t, get[string](t, f, f, "SELECT fence.text_problem(0, 0, 0)"))
}

// PL/pgSQL resolves the types in DECLARE once per session, with the search_path of
// the first caller. The caller's types must not be used by a function that runs as
// the owner.
func TestCallersTypesAreNotUsed(t *testing.T) {
	t.Parallel()
	for way, compile := range map[string][]string{
		"a helper that the caller calls": {
			"SELECT fence.naive_helper()",
			"SELECT fence.admit_slow('x', 1, 'a', 0)", "SELECT fence.lock_exclusive('x', 0)", "SELECT fence.lock_lease('x')",
			"SELECT fence.draw_number(1)", "SELECT fence.next_number(1)", "SELECT fence.commit_durably()", "SELECT fence.record_admission('x')",
		},
		// Its arguments have no collation, so the compiled function also runs for
		// arguments without a common collation.
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

// lowerTheMark tries to lower the mark of account/42, as a role with USAGE on the schema.
// The role creates types whose CHECK lowers the mark if the owner evaluates it, has them
// compiled into functions, and calls every function that runs as the owner.
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
		"SELECT fence.naive('y', 'a')", "SELECT fence.admit('y', 1, 'a')", "SELECT fence.admit('y', 2, 'a', 1000)", "SELECT fence.report_only('y', 1, 'a')",
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

func TestReportOnly(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	reportOnly := func(t *testing.T, on db, number int64, holder string) error {
		t.Helper()
		var n int64
		var h string
		err := on.QueryRow(ctx, f.sql("SELECT number, holder FROM fence.report_only($1, $2, $3)"), t.Name(), number, holder).Scan(&n, &h)
		if err == nil {
			require.Equal(t, int64(6), n)
			require.Equal(t, "b b", h)
		}
		return err
	}
	t.Run("admits like admit, and returns no row", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadCommitted)
		require.ErrorIs(t, reportOnly(t, tx, 6, "b b"), pgx.ErrNoRows)
		require.ErrorIs(t, reportOnly(t, tx, 6, "b b"), pgx.ErrNoRows)
		require.Equal(t, "\n"+f.schema+"/"+t.Name()+"\n", get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"))

		newer := f.begin(t, pgx.ReadCommitted)
		wait := pgtest.Later(t, func() error { return f.admit(ctx, newer, t.Name(), 7, "c") })
		f.blocked(t, newer.Conn())
		require.NoError(t, tx.Commit(ctx))
		require.NoError(t, wait())
	})
	t.Run("returns the mark for a stale token and for a collision, and the transaction stays open", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b b"))
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, reportOnly(t, tx, 5, "a"))
		require.NoError(t, reportOnly(t, tx, 6, "a"))
		require.NoError(t, f.exec(ctx, tx, "SELECT 1"))
		require.Empty(t, get[string](t, f, tx, "SELECT coalesce(current_setting('fencepost.admitted', true), '')"))
		require.NoError(t, f.admit(ctx, f, t.Name(), 7, "c"), "a token that was not admitted blocks no other")
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("returns number 0 if it could not compare in time, and the transaction stays open", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, "0 ''", get[string](t, f, tx, "SELECT number || ' ' || quote_literal(holder) FROM fence.report_only($1, 6, 'b', 20)", t.Name()))
		require.Equal(t, "0", get[string](t, f, tx, "SHOW lock_timeout"))
		require.Empty(t, get[string](t, f, tx, "SELECT coalesce(current_setting('fencepost.admitted', true), '')"))
		require.NoError(t, tx.Commit(ctx))
	})
	t.Run("does not hide that the snapshot is fixed", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "ZF004", code(f.exec(ctx, f.begin(t, pgx.Serializable), "SELECT fence.report_only($1, 6, 'b')", t.Name())))
	})
}
