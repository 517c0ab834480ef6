package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestExpressionsThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run(t, f, f, `CREATE TABLE fence.accounts (id bigint, code varchar(9), made text GENERATED ALWAYS AS ('x' || code) STORED);
		CREATE FUNCTION fence.slug(bigint) RETURNS text LANGUAGE sql AS 'SELECT ''x''';
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
		"'account/' || random()":             {"22023", "random() is volatile: only what is declared IMMUTABLE or STABLE gives a row one name"},
		"fence.slug(id)":                     {"22023", "fence.slug(bigint) is volatile: only what is declared IMMUTABLE or STABLE gives a row one name"},
		"OPERATOR(fence.#) id":               {"22023", "fence.slug(bigint) is volatile: only what is declared IMMUTABLE or STABLE gives a row one name"},
		"(SELECT gen_random_uuid()::text)":   {"22023", "gen_random_uuid() is volatile: only what is declared IMMUTABLE or STABLE gives a row one name"},
		"$1":                                 {"42P02", "there is no parameter $1"},
		"":                                   {"22023", ""},
		" \n":                                {"22023", ""},
	} {
		expression, c.says = f.sql(expression), strings.ReplaceAll(c.says, "fence.", f.schema+".")
		for _, mode := range []string{"enforce", "observe"} {
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
	run(t, f, f, `CREATE TABLE fence.owners (id bigint, name text); INSERT INTO fence.owners VALUES (42, 'alice');
		CREATE TYPE fence.kind AS ENUM ('savings');
		CREATE TABLE fence.accounts (id bigint, code varchar(9), kind fence.kind, key uuid, tags text[], made text GENERATED ALWAYS AS ('x' || code) STORED);
		CREATE FUNCTION fence.slug(bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT 'slug-' || $1 $$`)
	const insert = "INSERT INTO fence.accounts VALUES (42, E'b\\\\1', 'savings', '00000000-0000-0000-0000-000000000001', '{p,q}')"
	for expression, resource := range map[string]string{
		account:                      "account/42",
		"'account/' || id --":        "account/42",
		"'config'":                   "config",
		"code::text":                 `b\1`,
		`'\' || code || E'\'\\'`:     `\b\1'\`,
		"'x' || code":                `xb\1`,
		"concat(id, '/', code, '%')": `42/b\1%`,
		"fence.slug(id)":             "slug-42",
		"kind || '/' || key":         "savings/00000000-0000-0000-0000-000000000001",
		"tags[2] || '/' || array_length(tags, 1)":                                        "q/2",
		"CASE WHEN id > 40 THEN 'high' ELSE 'low' END COLLATE \"POSIX\"":                 "high",
		"(SELECT 'owner/' || o.name FROM fence.owners o WHERE o.id + length(code) = 45)": "owner/alice",
		"'$$ $body$ $fencepost$ ' || id":                                                 "$$ $body$ $fencepost$ 42",
		"'größe/' || id":                                                                 "größe/42",
	} {
		expression = f.sql(expression)
		f.protect(t, "fence.accounts", expression)
		require.Contains(t, unguarded(t, f.exec(t.Context(), f, insert)).Detail, "resource "+resource+":", expression)
		require.NoError(t, f.guarded(t, insert+"; UPDATE fence.accounts SET tags = tags; DELETE FROM fence.accounts", resource), expression)
	}
}

func TestExpressionThatIsNullOrFails(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	ctx := t.Context()
	for _, mode := range []string{"enforce", "observe"} {
		run(t, f, f, "SELECT fence.protect('fence.accounts', 'nullif(writer, ''none'') || 100 / id', $1)", mode)
		require.Equal(t, "22012", code(f.exec(ctx, f, "INSERT INTO fence.accounts VALUES (0, 'x')")), "it fails closed")
	}
	run(t, f, f, "SELECT fence.protect('fence.accounts', 'nullif(writer, ''none'')')")
	for _, write := range []string{"INSERT INTO fence.accounts VALUES (44, 'none')", "UPDATE fence.accounts SET writer = 'none'"} {
		require.Contains(t, unguarded(t, f.guarded(t, write, "none", "x")).Detail, "resource")
	}
	// A column that was renamed.
	f.protect(t, "fence.accounts", account)
	run(t, f, f, "ALTER TABLE fence.accounts RENAME id TO number")
	require.Equal(t, "42703", code(f.guarded(t, "UPDATE fence.accounts SET writer = 'x'", "account/42", "account/43")))
	f.protect(t, "fence.accounts", "'account/' || number")
	require.NoError(t, f.guarded(t, "UPDATE fence.accounts SET writer = 'x'", "account/42", "account/43"))
}
