package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
			for _, mode := range []string{"report-only", "enforce"} {
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

// Their functions' names are truncated to the same 63 bytes.
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

// The expression's columns are not confused with the trigger's variables.
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

// newPartitions returns a fence with a protected table of two partitions. One has its
// columns in another order, and one has two partitions itself.
func newPartitions(t *testing.T) fence {
	t.Helper()
	f := newFence(t)
	run(t, f, f, `CREATE TABLE fence.jobs (id bigint, region text, n int) PARTITION BY LIST (region);
		CREATE TABLE fence.north PARTITION OF fence.jobs FOR VALUES IN ('north');
		CREATE TABLE fence.south (n int, gone int, region text, id bigint);
		ALTER TABLE fence.south DROP gone;
		ALTER TABLE fence.jobs ATTACH PARTITION fence.south FOR VALUES IN ('south');
		CREATE TABLE fence.west PARTITION OF fence.jobs FOR VALUES IN ('west') PARTITION BY HASH (id);
		CREATE TABLE fence.west1 PARTITION OF fence.west FOR VALUES WITH (MODULUS 1, REMAINDER 0);
		INSERT INTO fence.jobs SELECT id, unnest(ARRAY['north', 'south', 'west']), 0 FROM generate_series(1, 2) id`)
	f.protect(t, "fence.jobs", "'job/' || region || '/' || id")
	return f
}

func TestProtectionOfPartitionsThatComeLater(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]string{
		"created": "CREATE TABLE fence.east PARTITION OF fence.jobs FOR VALUES IN ('east')",
		"attached": `CREATE TABLE fence.east (n int, region text, id bigint);
			ALTER TABLE fence.jobs ATTACH PARTITION fence.east FOR VALUES IN ('east')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPartitions(t)
			run(t, f, f, come)
			const insert = "INSERT INTO fence.jobs (id, region) VALUES (1, 'east')"
			unguarded(t, f.exec(t.Context(), f, insert))
			require.NoError(t, f.guarded(t, insert, "job/east/1"))
			require.Equal(t, []string{f.schema + ".east: trigger zz_fencepost_truncate is missing"}, f.holes(t, f))
			unguarded(t, f.exec(t.Context(), f, "TRUNCATE fence.jobs"))
			run(t, f, f, "TRUNCATE fence.east") // the gap
			f.protect(t, "fence.jobs", "'job/' || region || '/' || id")
			require.Empty(t, f.holes(t, f))
			unguarded(t, f.exec(t.Context(), f, "TRUNCATE fence.east"))
		})
	}
}

func TestPartitionIsProtectedByItsTable(t *testing.T) {
	t.Parallel()
	f := newPartitions(t)
	ctx := t.Context()
	for _, call := range []string{"protect('fence.north', 'id::text')", "unprotect('fence.north')"} {
		err := f.exec(ctx, f, f.sql("SELECT fence."+call))
		require.Equal(t, "42809", code(err), call)
		require.ErrorContains(t, err, f.schema+".north is a partition")
	}

	run(t, f, f, "ALTER TABLE fence.jobs DETACH PARTITION fence.north")
	run(t, f, f, "UPDATE fence.north SET n = 1") // no resource has this name
	require.Equal(t, []string{f.schema + ".north: trigger zz_fencepost_row is missing"}, f.holes(t, f))
	f.protect(t, "fence.north", "'north/' || id")
	require.Empty(t, f.holes(t, f))
	require.NoError(t, f.guarded(t, "UPDATE fence.north SET n = 2 WHERE id = 1", "north/1"))
	unguarded(t, f.exec(ctx, f, "TRUNCATE fence.north"))

	err := f.exec(ctx, f, "ALTER TABLE fence.jobs ATTACH PARTITION fence.north FOR VALUES IN ('north')")
	require.Equal(t, "42710", code(err), "two protections of one row")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.north')"))
	run(t, f, f, "ALTER TABLE fence.jobs ATTACH PARTITION fence.north FOR VALUES IN ('north')")

	run(t, f, f, "SELECT fence.protect('fence.jobs', $$'job/' || id$$); ALTER TABLE fence.jobs DETACH PARTITION fence.south")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.south')"), "what was left of it")
	run(t, f, f, "TRUNCATE fence.south")
	unguarded(t, f.exec(ctx, f, "TRUNCATE fence.jobs"))
	run(t, f, f, "ALTER TABLE fence.jobs DETACH PARTITION fence.north")
	require.True(t, get[bool](t, f, f, "SELECT fence.unprotect('fence.jobs')"))
	require.Empty(t, f.traces(t), "also on what was detached")
}

// The writer's search_path begins with a schema that has the names that the trigger and
// its expression call, and a || for text and bigint, which PostgreSQL prefers to its own
// wherever it is in the path. Each of these reports its use.
func TestProtectedTableFindsNothingInTheWritersPath(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	f.protect(t, "fence.accounts", "lower('ACCOUNT/') || id")
	run(t, f, f, "SELECT fence.protect('fence.plain', $$lower('ACCOUNT/') || id$$, 'report-only')")
	shadow := f.named("fence.shadow")
	run(t, f, f, "CREATE SCHEMA "+shadow)
	f.atEnd(t, "DROP SCHEMA "+shadow+" CASCADE")
	run(t, f, f, f.named(`
		CREATE FUNCTION fence.shadow.lower(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.strpos(text, text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.current_setting(text, boolean) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.joined(text, bigint) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.joined(text, oid) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.joined(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.equal(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE FUNCTION fence.shadow.greater(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'hijacked'; END $$;
		CREATE OPERATOR fence.shadow.|| (LEFTARG = text, RIGHTARG = bigint, FUNCTION = fence.shadow.joined);
		CREATE OPERATOR fence.shadow.|| (LEFTARG = text, RIGHTARG = oid, FUNCTION = fence.shadow.joined);
		CREATE OPERATOR fence.shadow.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = fence.shadow.joined);
		CREATE OPERATOR fence.shadow.= (LEFTARG = text, RIGHTARG = text, FUNCTION = fence.shadow.equal);
		CREATE OPERATOR fence.shadow.> (LEFTARG = int, RIGHTARG = int, FUNCTION = fence.shadow.greater);
		CREATE DOMAIN fence.shadow.text AS pg_catalog.text CHECK (false);
		CREATE COLLATION fence.shadow."C" (provider = icu, locale = 'und', deterministic = false)`))
	for _, path := range []string{shadow, shadow + ", pg_catalog"} {
		tx := f.begin(t, pgx.ReadCommitted)
		for _, text := range []string{write42, "INSERT INTO fence.accounts VALUES (44, '')", "DELETE FROM fence.accounts WHERE id = 42", "TRUNCATE fence.accounts"} {
			run(t, f, tx, "SAVEPOINT a; SET LOCAL search_path = "+path)
			unguarded(t, f.exec(t.Context(), tx, text))
			run(t, f, tx, "ROLLBACK TO a")
		}
		require.NoError(t, f.admit(t.Context(), tx, "account/42", 5, "a"))
		require.NoError(t, f.admit(t.Context(), tx, "account/43", 5, "a"))
		run(t, f, tx, "SET LOCAL search_path = "+path)
		run(t, f, tx, write42+"; UPDATE fence.plain SET writer = 'x'; DELETE FROM fence.accounts WHERE id OPERATOR(pg_catalog.=) 43; INSERT INTO fence.accounts VALUES (43, '')")
		require.Equal(t, path, get[string](t, f, tx, "SHOW search_path"))
		require.NoError(t, tx.Rollback(t.Context()))

		twin := f.begin(t, pgx.ReadCommitted)
		run(t, f, twin, "ALTER FUNCTION fence.fencepost_accounts RESET search_path; SET LOCAL search_path = "+path)
		require.ErrorContains(t, f.exec(t.Context(), twin, write42), "hijacked", "the twin has the writer's path")
		require.NoError(t, twin.Rollback(t.Context()))
	}
}

// oneText is the end of the error for a type that is not on the list.
const oneText = "integers, numeric(p,s), text, varchar, char(n), uuid, boolean, enums, network addresses and bit strings have one"

func TestExpressionsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run(t, f, f, `CREATE TABLE fence.accounts (id bigint, code varchar(9), tags text[], made text GENERATED ALWAYS AS ('x' || code) STORED);
		CREATE FUNCTION fence.slug(bigint) RETURNS text LANGUAGE sql AS 'SELECT ''x''';
		CREATE FUNCTION fence.today() RETURNS text STABLE LANGUAGE sql AS 'SELECT now()::text';
		CREATE OPERATOR fence.# (RIGHTARG = bigint, FUNCTION = fence.slug)`)
	for expression, c := range map[string]struct{ code, says string }{
		"'account/' || ":                     {"42601", `syntax error at or near ")"`},
		"'account/' || id)":                  {"42601", `syntax error at or near ")"`},
		"id":                                 {"22023", "its type is bigint, not text: cast it"},
		"code":                               {"22023", "its type is character varying, not text: cast it"},
		"id, code":                           {"42P16", `column "resource" has pseudo-type record`},
		"id = 42":                            {"22023", "its type is boolean, not text: cast it"},
		"'x', 'y'":                           {"42P16", `column "resource" has pseudo-type record`},
		"'account/' || nobody":               {"42703", `column "nobody" does not exist`},
		"'account/' || tableoid":             {"42703", `column "tableoid" does not exist`},
		"'account/' || count(*)":             {"42803", "aggregate functions are not allowed in WHERE"},
		"'account/' || row_number() OVER ()": {"42P20", "window functions are not allowed in WHERE"},
		"regexp_split_to_table(code, ',')":   {"0A000", "set-returning functions are not allowed in WHERE"},
		"slug(id)":                           {"42883", "function slug(bigint) does not exist"},
		"'account/' || made":                 {"22023", "column made is not there yet when the trigger runs: write what generates it instead"},
		"'account/' || gen_random_uuid()":    {"22023", "gen_random_uuid() may give a row several names; an IMMUTABLE function does not"},
		"fence.slug(id)":                     {"22023", "fence.slug(bigint) may give a row several names; an IMMUTABLE function does not"},
		"OPERATOR(fence.#) id":               {"22023", "fence.slug(bigint) may give a row several names; an IMMUTABLE function does not"},
		"fence.today()":                      {"22023", "fence.today() may give a row several names; an IMMUTABLE function does not"},
		"format('%s', id)":                   {"22023", `format(text,"any") may give a row several names; an IMMUTABLE function does not`},
		"current_setting('TimeZone')":        {"22023", "current_setting(text) may give a row several names; an IMMUTABLE function does not"},
		"(SELECT 'x'::text)":                 {"22023", "a subquery may give a row several names"},
		"'account/' || current_user":         {"22023", "a value of the session or of the time gives a row several names"},
		"tags[1]":                            {"22023", "a value of type text[] may have several texts; " + oneText},
		"xmlserialize(content xmlelement(name a) AS text)": {"22023", "xmlexpr is not allowed in it"},
		"$1":  {"42P02", "there is no parameter $1"},
		"":    {"22023", ""},
		" \n": {"22023", ""},
	} {
		expression, c.says = f.sql(expression), strings.ReplaceAll(c.says, "fence.", f.schema+".")
		for _, mode := range []string{"enforce", "report-only"} {
			err := f.exec(t.Context(), f, "SELECT fence.protect('fence.accounts', $1, $2)", expression, mode)
			var refusal *pgconn.PgError
			require.ErrorAs(t, err, &refusal, expression)
			require.Equal(t, c.code, refusal.Code, "%s: %v", expression, err)
			if c.says == "" {
				require.Equal(t, "fencepost: protect: no resource expression", refusal.Message)
				continue
			}
			require.Equal(t, "fencepost: protect: resource expression of table "+f.schema+".accounts: "+c.says, refusal.Message)
			require.Equal(t, "The expression: "+expression, refusal.Detail)
			require.Contains(t, refusal.Hint, "of type text")
		}
	}
	require.Empty(t, f.traces(t), "nothing was installed")

	f.protect(t, "fence.accounts", account)
	require.Error(t, f.exec(t.Context(), f, "SELECT fence.protect('fence.accounts', 'nonsense')"))
	require.Contains(t, unguarded(t, f.exec(t.Context(), f, "INSERT INTO fence.accounts VALUES (42)")).Detail, "resource account/42:", "what was there stays")
}

func TestExpressionsThatWork(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run(t, f, f, `CREATE TYPE fence.kind AS ENUM ('savings');
		CREATE DOMAIN fence.price AS numeric(6,2);
		CREATE TABLE fence.accounts (id bigint, code varchar(9), kind fence.kind, key uuid, price fence.price, made text GENERATED ALWAYS AS ('x' || code) STORED);
		CREATE FUNCTION fence.slug(bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'slug-' || $1 $$`)
	const insert = "INSERT INTO fence.accounts VALUES (42, E'b\\\\1', 'savings', '00000000-0000-0000-0000-000000000001', 7)"
	for expression, resource := range map[string]string{
		account:                                  "account/42",
		"'account/' || id --":                    "account/42",
		"'config'":                               "config",
		"code::text":                             `b\1`,
		`'\' || code || E'\'\\'`:                 `\b\1'\`,
		"'x' || code":                            `xb\1`,
		"concat(id, '/', code, '%')":             `42/b\1%`,
		"fence.slug(id)":                         "slug-42",
		"kind || '/' || key":                     "savings/00000000-0000-0000-0000-000000000001",
		"price || '/' || round(price / 2)::text": "7.00/4",
		"CASE kind WHEN 'savings' THEN id % 5 END || coalesce(code, 'x')":   `2b\1`,
		"CASE WHEN id > 40 THEN 'high' ELSE 'low' END COLLATE \"POSIX\"":    "high",
		"CASE WHEN code IS NULL OR NOT id IS DISTINCT FROM 42 THEN 'a' END": "a",
		"nullif(upper(code), 'x') || greatest(id = 42, false)":              `B\1true`,
		"'$$ $body$ $fencepost$ ' || id":                                    "$$ $body$ $fencepost$ 42",
		"'größe/' || id":                                                    "größe/42",
	} {
		expression = f.sql(expression)
		f.protect(t, "fence.accounts", expression)
		require.Contains(t, unguarded(t, f.exec(t.Context(), f, insert)).Detail, "resource "+resource+":", expression)
		require.NoError(t, f.guarded(t, insert+"; UPDATE fence.accounts SET price = price; DELETE FROM fence.accounts", resource), expression)
	}
}
