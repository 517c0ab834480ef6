package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// names are columns and expressions that give one row two names, to two sessions or by two
// equal values.
var names = map[string]struct {
	column, expression string
	sets               [2]string // a setting of each session
	values             [2]string // which are equal
	says               string
}{
	"a date, cast":                       {"date", "'x/' || v::text", [2]string{"DateStyle = ISO", "DateStyle = German"}, same("2026-10-30"), "type date"},
	"a date":                             {"date", "'x/' || v", [2]string{"DateStyle = ISO", "DateStyle = German"}, same("2026-10-30"), "type date"},
	"a time":                             {"timestamptz", "concat('x/', v)", [2]string{"TimeZone = UTC", "TimeZone = 'Asia/Kathmandu'"}, same("2026-10-30 12:00+00"), "type timestamp with time zone"},
	"an interval":                        {"interval", "v::text", [2]string{"IntervalStyle = postgres", "IntervalStyle = iso_8601"}, same("1 day"), "type interval"},
	"a float, whose output is immutable": {"float8", "'x/' || v", [2]string{"extra_float_digits = 1", "extra_float_digits = -3"}, same("0.1234567890123456789"), "type double precision"},
	"a bigint, cast to float":            {"bigint", "v::float8::text", [2]string{"extra_float_digits = 1", "extra_float_digits = -3"}, same("123456789012345678"), "type double precision"},
	"floats in an array":                 {"float8[]", "v::text", [2]string{"extra_float_digits = 1", "extra_float_digits = -3"}, same("{0.1234567890123456789}"), "type double precision[]"},
	"a range":                            {"daterange", "v::text", [2]string{"DateStyle = ISO", "DateStyle = German"}, same("[2026-10-30,2026-11-02)"), "type daterange"},
	"bytes":                              {"bytea", "'x/' || v::text", [2]string{"bytea_output = hex", "bytea_output = escape"}, same(`\x01`), "type bytea"},
	"an immutable function that reads a setting": {"text", "'x/' || quote_ident(v)", [2]string{"quote_all_identifiers = off", "quote_all_identifiers = on"}, same("a"), "quote_ident(text)"},
	"a numeric without a scale":                  {"numeric", "'x/' || v", [2]string{}, [2]string{"1.0", "1.00"}, "type numeric"},
	"a bpchar without a length":                  {"bpchar", "concat('x/', v)", [2]string{}, [2]string{"a", "a "}, "type character"},
	"a text that is compared without case":       {`text COLLATE fence.loose`, "'x/' || v", [2]string{}, [2]string{"a", "A"}, "loose treats several texts as one value"},
}

func same(value string) [2]string { return [2]string{value, value} }

// The row is deleted under #34 and its first name, and inserted again under #33 and its
// second name.
//
// hazard G19
func TestAnExpressionThatGivesARowTwoNames(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	run(t, f, f, "CREATE COLLATION fence.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	for name, c := range names {
		t.Run(name, func(t *testing.T) {
			run(t, f, f, "CREATE TABLE fence.rows (v "+c.column+" UNIQUE, writer text)")
			defer run(t, f, f, "DROP TABLE fence.rows")
			run(t, f, f, "INSERT INTO fence.rows VALUES ('"+c.values[0]+"')")
			err := f.exec(t.Context(), f, "SELECT fence.protect('fence.rows', $1)", c.expression)
			require.Equal(t, "22023", code(err), "%v", err)
			require.ErrorContains(t, err, c.says)

			// The twin has a trigger of its own, which trusts the expression.
			run(t, f, f, `CREATE OR REPLACE FUNCTION fence.naive() RETURNS trigger LANGUAGE plpgsql AS $naive$ DECLARE v fence.rows.v%TYPE := coalesce(NEW.v, OLD.v); BEGIN
				IF strpos(current_setting('fencepost.admitted', true), '/' || (`+c.expression+`) COLLATE "C" || E'\n') > 0 THEN RETURN coalesce(NEW, OLD); END IF;
				RAISE 'refused: %', `+c.expression+`; END $naive$;
				CREATE TRIGGER naive BEFORE INSERT OR DELETE ON fence.rows FOR EACH ROW EXECUTE FUNCTION fence.naive()`)
			for i, write := range []string{"DELETE FROM fence.rows", "INSERT INTO fence.rows VALUES ('" + c.values[1] + "')"} {
				tx := f.begin(t, pgx.ReadCommitted)
				if c.sets[i] != "" {
					run(t, f, tx, "SET LOCAL "+c.sets[i])
				}
				resource := get[string](t, f, tx, "SELECT "+c.expression+" FROM (SELECT $1::text::"+c.column+" AS v) AS x", c.values[i])
				require.NoError(t, f.admit(t.Context(), tx, resource, int64(34-i), "h"))
				run(t, f, tx, write)
				require.NoError(t, tx.Commit(t.Context()))
			}
			require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.rows WHERE v = $1::text::"+c.column, c.values[0]), "the twin must be corrupted: the deleted row is back")
		})
	}
}
