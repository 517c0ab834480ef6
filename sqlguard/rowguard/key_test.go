package rowguard_test

import (
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

type (
	uuid    [16]byte        // as in a library whose own methods return another form
	number  int32           // a defined integer
	name    string          // a defined string
	account struct{ n int } // its text form is the number's
	wrapped struct{ v any }
)

func (uuid) String() string                    { return "{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}" }
func (uuid) Value() (driver.Value, error)      { return uuid{}.String(), nil }
func (a account) String() string               { return fmt.Sprint(a.n) }
func (w wrapped) Value() (driver.Value, error) { return w.v, nil }

func pointerTo[T any](v T) *T { return &v }

const textID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"

// hazard G19
func TestARowHasOneName(t *testing.T) {
	t.Parallel()
	id := uuid{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}
	const odd = "Größe 'a' \"b\" $1 @x \\"
	for column, keys := range map[string]struct {
		text  string // of one key
		right []any  // other values for the same key
		wrong []any  // the same key to the column's type, with another text
	}{
		"bigint":        {"42", []any{42, int64(42), int8(42), uint64(42), number(42), "42", account{42}, wrapped{int64(42)}, pgtype.Int8{Int64: 42, Valid: true}, pointerTo(42)}, []any{"042", "+42", " 42 "}},
		"uuid":          {textID, []any{id, [16]byte(id), pgtype.UUID{Bytes: id, Valid: true}, textID, name(textID), wrapped{textID}}, []any{strings.ToUpper(textID), "{" + textID + "}", strings.ReplaceAll(textID, "-", "")}},
		"text":          {odd, []any{odd, name(odd)}, nil},
		"varchar(20)":   {"a b", []any{"a b"}, nil},
		"char(5)":       {"ab", []any{"ab"}, []any{"ab  "}},
		"numeric(10,2)": {"42.00", []any{"42.00"}, []any{42, "42.0", "4.2e1"}},
		"inet":          {"10.0.0.1/8", []any{"10.0.0.1/8"}, []any{"10.0.0.1/08"}},
	} {
		inEnv(t, "with a key of type "+column, func(t *testing.T, e env) {
			const row = "SELECT last_token || ' ' || writer FROM fence.ledger"
			for _, mode := range modes {
				rows := e.keyed(e.connect(1, mode), column, mode.String()+"/")
				ctx, _ := e.as(33, rows.Prefix, keys.text)
				require.NoError(t, rows.Insert(ctx, keys.text, x))
				for _, key := range keys.right {
					require.NoError(t, rows.Update(ctx, key, rowguard.Set{"writer": "updated"}), "%T", key)
				}
				_, newer := e.as(34, rows.Prefix, keys.text)
				require.NoError(t, rows.Claim(e.base, newer))
				require.ErrorIs(t, rows.Update(ctx, keys.text, x), guard.ErrStale)
				require.Equal(t, "34 updated", get[string](e, row))
				for _, key := range keys.wrong {
					e.refusesAlias(rows, key, keys.text)
				}
				require.Equal(t, "34 updated", get[string](e, row))
			}
		})
	}
	inEnv(t, "and its mark one holder, whatever the collation", func(t *testing.T, e env) {
		rows := e.keyed(e.pool, "text", "user/")
		e.exec("ALTER TABLE fence.ledger ALTER last_holder TYPE text COLLATE " + e.loose())
		e.exec("INSERT INTO fence.ledger VALUES ('alice', '', 33, 'h')")
		tok := token.Token{Resource: "user/alice", Number: 33, Holder: "H"}
		require.ErrorIs(t, rows.Upsert(token.NewContext(e.base, tok), "alice", nil), guard.ErrCollision, "another holder, byte by byte")
	})
	inEnv(t, "the twin, whose caller names the resource, fences one row twice", func(t *testing.T, e env) {
		for i, key := range []string{"42", "042"} {
			ctx, tok := e.as(int64(34-i), "account/", key)
			_, err := e.Guard.On(tok.Resource).Exec(ctx, e.sql("UPDATE fence.accounts SET writer = $1 WHERE id = $2"), tok.Holder, key)
			require.NoError(t, err)
		}
		require.Equal(t, "h33", e.writer(), "the twin must be corrupted: two marks, one row")
	})
}

// refusesAlias tries a key that the table writes differently, with and without its row.
func (e env) refusesAlias(rows *rowguard.Table, alias any, key string) {
	e.t.Helper()
	ctx, tok := e.as(50, rows.Prefix, alias)
	refuses := func(errs map[string]error) {
		e.t.Helper()
		for door, err := range errs {
			require.ErrorContains(e.t, err, key, "%s of %q", door, alias)
			require.Empty(e.t, outcomes(err), "%s of %q", door, alias)
		}
	}
	refuses(map[string]error{"Update": rows.Update(ctx, alias, x), "Upsert": rows.Upsert(ctx, alias, nil), "Delete": rows.Delete(ctx, alias), "Claim": rows.Claim(ctx, tok)})
	row := get[string](e, "SELECT jsonb_agg(l)::text FROM fence.ledger l")
	e.exec("DELETE FROM fence.ledger")
	e.unclaimed(rows, tok, fmt.Sprintf("is '%s' in the table", key))
	refuses(map[string]error{"Insert": rows.Insert(ctx, alias, nil), "Upsert": rows.Upsert(ctx, alias, nil)})
	require.ErrorIs(e.t, rows.Update(ctx, alias, x), guard.ErrRowNotFound, "%q", alias)
	require.Zero(e.t, get[int](e, "SELECT count(*) FROM fence.ledger"))
	e.exec("INSERT INTO fence.ledger SELECT * FROM jsonb_populate_recordset(NULL::fence.ledger, $1)", row)
}

// unclaimed requires that a claim is refused, and raises no mark.
func (e env) unclaimed(rows *rowguard.Table, tok token.Token, says string) {
	e.t.Helper()
	e.exec("DELETE FROM fence.marks")
	err := rows.Claim(e.base, tok)
	require.ErrorContains(e.t, err, says, tok)
	require.Empty(e.t, outcomes(err), tok)
	require.Zero(e.t, get[int](e, "SELECT count(*) FROM fence.marks"), tok)
}

// loose creates a collation that ignores the case, and returns its name.
func (e env) loose() string {
	e.exec("CREATE COLLATION fence.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	return e.sql("fence.loose")
}

// A row is deleted under #34 and one spelling of its key, and inserted again under #33 and
// another spelling.
//
// hazard G19
func TestAKeyWhoseEqualValuesHaveTwoTexts(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	loose := e.loose()
	pool := e.connect(2, pgx.QueryExecModeExec) // the table changes under statements with the same text
	e.exec("CREATE DOMAIN fence.price AS numeric; CREATE DOMAIN fence.nick AS text COLLATE " + loose)
	for column, says := range map[string]string{
		"numeric": "type ", "fence.price": "type ",
		"text COLLATE " + loose: "collation ", "varchar(9) COLLATE " + loose: "collation ", "fence.nick": "collation ",
	} {
		keys := map[string][2]string{"type ": {"1.0", "1.00"}, "collation ": {"alice", "ALICE"}}[says]
		rows := e.keyed(pool, column, "row/")
		for _, row := range []bool{false, true} {
			if row {
				e.exec("INSERT INTO fence.ledger (k, last_token, last_holder) VALUES ('" + keys[0] + "', 33, 'h33')")
			}
			for _, key := range keys {
				ctx, tok := e.as(50, "row/", key)
				e.unclaimed(rows, tok, says)
				for door, err := range map[string]error{"Upsert": rows.Upsert(ctx, key, nil), "Explain": rows.Explain(ctx, key)} {
					require.ErrorContains(t, err, says, "%s of %q", door, key)
				}
			}
		}
		e.exec("DELETE FROM fence.marks")
		twin := func(key string, number int64, statement string) {
			ctx, tok := e.as(number, "row/", key)
			_, err := rows.Guard.On(tok.Resource).Exec(ctx, e.sql(statement), key)
			require.NoError(t, err, column)
		}
		twin(keys[0], 34, "DELETE FROM fence.ledger WHERE k = $1")
		ctx, _ := e.as(33, "row/", keys[1])
		require.ErrorContains(t, rows.Insert(ctx, keys[1], nil), says, column)
		require.Zero(t, get[int](e, "SELECT count(*) FROM fence.ledger"))
		twin(keys[1], 33, "INSERT INTO fence.ledger VALUES ($1)")
		require.Equal(t, 1, get[int](e, "SELECT count(*) FROM fence.ledger"), "the twin must be corrupted: the deleted row is back")
	}
}

func TestKeysThatNameNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, key := range []any{nil, pgtype.UUID{}, (*int)(nil), (*account)(nil), wrapped{nil}, 4.2, true, []byte("42"), [4]byte{}, struct{}{}} {
		err := e.Update(e.ctx(33), key, x)
		require.ErrorContains(t, err, "rowguard: ", "%T", key)
		require.NotErrorIs(t, err, token.ErrMissing, "%T", key)
	}
	for _, key := range []any{"", "x\n", strings.Repeat("x", 300)} {
		ctx, _ := e.as(33, "account/", key)
		err := e.Update(ctx, key, x)
		require.Error(t, err)
		require.Empty(t, outcomes(err))
	}
	require.Empty(t, e.writer())
}

// A key is sent as text, and must still be found by its index.
func TestAClaimUsesTheIndex(t *testing.T) {
	t.Parallel()
	for column, make := range map[string]string{"bigint": "i", "uuid": "md5(i::text)::uuid", "text": "i::text"} {
		inEnv(t, "on "+column, func(t *testing.T, e env) {
			rows := e.keyed(e.pool, column, "row/")
			e.exec("INSERT INTO fence.ledger (k) SELECT " + make + " FROM generate_series(1, 5000) i")
			e.exec("ANALYZE fence.ledger")
			key := get[string](e, "SELECT k::text FROM fence.ledger OFFSET 2500 LIMIT 1")
			ctx, _ := e.as(33, "row/", key)
			own, err := rows.Fence(ctx, key)
			require.NoError(t, err)
			f := own.Clauses("t")
			for _, mode := range modes {
				for _, plans := range []string{"force_custom_plan", "force_generic_plan"} {
					found, err := e.connect(1, mode, "plan_cache_mode", plans).Query(e.base, e.sql("EXPLAIN UPDATE fence.ledger AS t SET "+f.Set+" WHERE "+f.Where), f.Args...)
					require.NoError(t, err)
					plan, err := pgx.CollectRows(found, pgx.RowTo[string])
					require.NoError(t, err)
					require.Contains(t, strings.Join(plan, "\n"), "Index Scan using ledger_k_key", "%s, %s", mode, plans)
				}
			}
		})
	}
}

// sessions returns pools of two sessions that write dates, times, intervals and numbers
// differently. It creates an enum, and domains over domains.
func (e env) sessions() (pools [2]*pgxpool.Pool) {
	e.exec("CREATE TYPE fence.mood AS ENUM ('sad', 'ok')")
	for name, base := range map[string]string{"text_d": "text", "float_d": "double precision", "dates_d": "date[]", "range_d": "tstzrange"} {
		e.exec("CREATE DOMAIN fence." + name + " AS " + base + "; CREATE DOMAIN fence." + name + "d AS fence." + name)
	}
	for i, settings := range [2][]string{
		{"DateStyle", "ISO", "IntervalStyle", "postgres", "TimeZone", "UTC", "extra_float_digits", "1", "bytea_output", "hex"},
		{"DateStyle", "German", "IntervalStyle", "iso_8601", "TimeZone", "Asia/Kathmandu", "extra_float_digits", "-3", "bytea_output", "escape"},
	} {
		pools[i] = e.connect(2, pgx.QueryExecModeExec, settings...) // the tables change under statements with the same text
	}
	return pools
}

// hazard G19
func TestAKeyHasOneTextInEverySession(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pools := e.sessions()
	for column, key := range map[string]string{
		"smallint": "42", "integer": "42", "bigint": "42", "oid": "42", "numeric(4)": "42", "numeric(10,2)": "0.10", "text": "a b", "varchar(20)": "a",
		"char(5)": "ab", "name": "a", "uuid": textID, "boolean": "true", "fence.mood": "ok", "inet": "10.0.0.1/8", "cidr": "10.0.0.0/8",
		"macaddr": "08:00:2b:01:02:03", "macaddr8": "08:00:2b:01:02:03:04:05", "bit(3)": "101", "bit varying": "1011",
		"fence.text_d": "a", "fence.text_dd": "a",
	} {
		e.exec("DELETE FROM fence.marks")
		rows := e.keyed(e.pool, column, "row/")
		for i, pool := range pools {
			ctx, tok := e.as(int64(33+i), "row/", key)
			rows.Guard.DB = pool
			require.NoError(t, rows.Upsert(ctx, key, nil), column)
			require.NoError(t, rows.Update(ctx, key, x), column)
			require.NoError(t, rows.Claim(e.base, tok), column)
		}
		require.Equal(t, "34", get[string](e, "SELECT string_agg(last_token::text, ' ') FROM fence.ledger"), column)
		require.Equal(t, 1, get[int](e, "SELECT count(*) FROM fence.marks"), column)
	}
}

// hazard G19
func TestAKeyWhoseTextDependsOnTheSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pools := e.sessions()
	const float, day = "0.1234567890123456789", "2026-10-30"
	twins := map[string]bool{"daterange": true, "date[]": true, "fence.float_dd": true}
	for column, key := range map[string]struct {
		value   string
		depends bool // on a setting that differs between the two; other types are refused because they are not on the allowlist
	}{
		"date": {day, true}, "timestamp": {day + " 12:00", true}, "timestamptz": {day + " 12:00+00", true}, "time": {"12:00", false},
		"timetz": {"12:00+00", false}, "interval": {"1 day", true}, "bytea": {`\x01`, true}, "real": {"0.123456789", true}, "double precision": {float, true},
		"money": {"1.00", false}, "daterange": {"[" + day + ",2026-11-02)", true}, "tsrange": {"[" + day + ",2026-11-02)", true}, "tstzrange": {"[" + day + " 12:00+00,)", true},
		"datemultirange": {"{[" + day + ",2026-11-02)}", true}, "tstzmultirange": {"{[" + day + " 12:00+00,)}", true}, "date[]": {"{" + day + "}", true},
		"interval[]": {"{1 day}", true}, "float8[]": {"{" + float + "}", true}, "int4range": {"[1,2)", false}, "int[]": {"{1}", false}, "jsonb": {"{}", false},
		"fence.float_d": {float, true}, "fence.float_dd": {float, true}, "fence.dates_dd": {"{" + day + "}", true}, "fence.range_dd": {"[" + day + " 12:00+00,)", true},
	} {
		rows := e.keyed(e.pool, column, "row/")
		e.exec("INSERT INTO fence.ledger VALUES ($1::text::"+column+", '')", key.value)
		var texts [2]string
		for i, pool := range pools {
			require.NoError(t, pool.QueryRow(e.base, e.sql("SELECT k::text FROM fence.ledger")).Scan(&texts[i]))
			ctx, tok := e.as(33, "row/", texts[i])
			rows.Guard.DB = pool
			e.unclaimed(rows, tok, "several texts")
			e.exec("ALTER TABLE fence.ledger DROP CONSTRAINT ledger_k_key")
			inserted := rows.Insert(ctx, texts[i], nil)
			e.exec("ALTER TABLE fence.ledger ADD UNIQUE (k)")
			for door, err := range map[string]error{
				"Insert": inserted, "Upsert": rows.Upsert(ctx, texts[i], nil), "Explain": rows.Explain(ctx, texts[i]), "Update": rows.Update(ctx, texts[i], x),
			} {
				require.ErrorContains(t, err, "several texts", "%s of %s", door, column)
			}
		}
		require.Equal(t, key.depends, texts[0] != texts[1], "%s: %s", column, texts)
		require.Equal(t, 1, get[int](e, "SELECT count(*) FROM fence.ledger WHERE last_token IS NULL AND writer = ''"), "%s: the one row, as it was", column)
		for i, number := range []int64{34, 33} { // the newer token first
			if ctx, tok := e.as(number, "row/", texts[i]); twins[column] {
				rows.Guard.DB = pools[i]
				_, err := rows.Guard.On(tok.Resource).Exec(ctx, e.sql("UPDATE fence.ledger SET writer = $1"), tok.Holder)
				require.NoError(t, err, column)
			}
		}
		if twins[column] {
			require.Equal(t, "h33", get[string](e, "SELECT writer FROM fence.ledger"), "the twin, which names the row by its text, must be corrupted: %s", column)
		}
		e.exec("DELETE FROM fence.ledger")
		for i, pool := range pools {
			_, tok := e.as(33, "row/", texts[i])
			rows.Guard.DB = pool
			e.unclaimed(rows, tok, "several texts")
		}
	}
}
