package sqlguard_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
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

var (
	id      = uuid{0xa0, 0xee, 0xbc, 0x99, 0x9c, 0x0b, 0x4e, 0xf8, 0xbb, 0x6d, 0x6b, 0xb9, 0xbd, 0x38, 0x0a, 0x11}
	textID  = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
	ofTypes = map[string]struct {
		text  string // of one key
		right []any  // other values for the same key
		wrong []any  // the same key to the column's type, with another text
	}{
		"bigint":        {"42", []any{42, int64(42), int8(42), uint64(42), number(42), "42", account{42}, wrapped{int64(42)}, pgtype.Int8{Int64: 42, Valid: true}, pointerTo(42)}, []any{"042", "+42", " 42 "}},
		"uuid":          {textID, []any{id, [16]byte(id), pgtype.UUID{Bytes: id, Valid: true}, textID, name(textID), wrapped{textID}}, []any{strings.ToUpper(textID), "{" + textID + "}", strings.ReplaceAll(textID, "-", "")}},
		"text":          {"Größe 'a' \"b\" $1 @x \\", []any{"Größe 'a' \"b\" $1 @x \\", name("Größe 'a' \"b\" $1 @x \\")}, nil},
		"varchar(20)":   {"a b", []any{"a b"}, nil},
		"char(5)":       {"ab", []any{"ab"}, []any{"ab  "}},
		"numeric(10,2)": {"42.00", []any{"42.00"}, []any{42, "42.0", "4.2e1"}},
		"inet":          {"10.0.0.1/8", []any{"10.0.0.1/8"}, []any{"10.0.0.1/08"}},
	}
)

// hazard G19
func TestARowHasOneName(t *testing.T) {
	t.Parallel()
	for column, keys := range ofTypes {
		t.Run("with a key of type "+column, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			for _, mode := range modes {
				e.exec("DROP TABLE IF EXISTS ledger")
				e.exec("CREATE TABLE ledger (k " + column + " PRIMARY KEY, writer text, last_token bigint NOT NULL DEFAULT 0, last_holder text NOT NULL DEFAULT '')")
				pool, _ := wired(t, 1, inMode(mode))
				rows := &rowguard.Table{Guard: e.with(func(g *sqlguard.Guard) { g.DB = pool }), Name: pgx.Identifier{e.schema, "ledger"}, Key: "k", Prefix: mode.String() + "/"}
				tok := token.Token{Resource: rows.Prefix + keys.text, Number: 33, Holder: "h33"}
				ctx := token.NewContext(e.bounded(), tok)
				require.NoError(t, rows.Insert(ctx, keys.text, rowguard.Set{"writer": "inserted"}))
				for _, key := range keys.right {
					require.NoError(t, rows.Update(ctx, key, rowguard.Set{"writer": "updated"}), "%T", key)
				}
				require.NoError(t, rows.Claim(e.bounded(), token.Token{Resource: tok.Resource, Number: 34, Holder: "h34"}))
				require.Equal(t, "34 updated", query[string](e, "SELECT last_token || ' ' || writer FROM ledger"))
				require.ErrorIs(t, rows.Update(ctx, keys.text, rowguard.Set{"writer": "stale"}), guard.ErrStale)
				for _, key := range keys.wrong {
					refusesAlias(t, e, rows, key, keys.text)
				}
				require.Equal(t, "34 updated", query[string](e, "SELECT last_token || ' ' || writer FROM ledger"))
			}
		})
	}
	t.Run("and its mark one holder, whatever the collation", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.exec("CREATE TABLE ledger (id text PRIMARY KEY, writer text, last_token bigint, last_holder text COLLATE " + e.loose() + ")")
		e.exec("INSERT INTO ledger VALUES ('alice', '', 33, 'h')")
		rows := &rowguard.Table{Guard: e.guard, Name: pgx.Identifier{e.schema, "ledger"}, Prefix: "user/"}
		tok := token.Token{Resource: "user/alice", Number: 33, Holder: "H"}
		require.ErrorIs(t, rows.Upsert(token.NewContext(e.bounded(), tok), "alice", nil), guard.ErrCollision, "another holder, byte by byte")
	})
	t.Run("the twin, whose caller names the resource, fences one row twice", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		naive := func(resource string, number int64, key, writer string) {
			ctx := token.NewContext(e.bounded(), token.Token{Resource: resource, Number: number, Holder: "h"})
			_, err := e.guard.On(resource).Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = $2"), writer, key)
			require.NoError(t, err)
		}
		naive("account/42", 34, "42", "B")
		naive("account/042", 33, "042", "A")
		require.Equal(t, "A", e.writer(), "the twin must be corrupted: two marks, one row")
	})
}

// doorsOf tries all writes of an existing key, under a token of its text.
func doorsOf(e *env, rows *rowguard.Table, key any) map[string]error {
	tok := token.Token{Resource: fmt.Sprint(rows.Prefix, key), Number: 50, Holder: "h50"}
	ctx := token.NewContext(e.bounded(), tok)
	return map[string]error{
		"Update": rows.Update(ctx, key, rowguard.Set{"writer": "alias"}),
		"Upsert": rows.Upsert(ctx, key, nil),
		"Delete": rows.Delete(ctx, key),
		"Claim":  rows.Claim(ctx, tok),
	}
}

// refusesAlias tries a key that the table writes differently, with and without its row.
func refusesAlias(t *testing.T, e *env, rows *rowguard.Table, alias any, key string) {
	t.Helper()
	for door, err := range doorsOf(e, rows, alias) {
		require.ErrorContains(t, err, key, "%s of %q", door, alias)
		require.Empty(t, outcomes(err), "%s of %q", door, alias)
	}
	row := query[string](e, "SELECT jsonb_agg(l)::text FROM ledger l")
	e.exec("DELETE FROM ledger")
	unclaimed(t, e, rows, token.Token{Resource: fmt.Sprint(rows.Prefix, alias), Number: 50, Holder: "h50"}, fmt.Sprintf("is '%s' in the table", key))
	ctx := token.NewContext(e.bounded(), token.Token{Resource: fmt.Sprint(rows.Prefix, alias), Number: 50, Holder: "h50"})
	require.ErrorContains(t, rows.Insert(ctx, alias, nil), key, "%q", alias)
	require.ErrorContains(t, rows.Upsert(ctx, alias, nil), key, "%q", alias)
	require.ErrorIs(t, rows.Update(ctx, alias, rowguard.Set{"writer": "alias"}), guard.ErrRowNotFound, "%q", alias)
	require.Zero(t, query[int](e, "SELECT count(*) FROM ledger"))
	e.exec("INSERT INTO ledger SELECT * FROM jsonb_populate_recordset(NULL::ledger, $1)", row)
}

// unclaimed requires that a claim is refused, and raises no mark.
func unclaimed(t *testing.T, e *env, rows *rowguard.Table, tok token.Token, says string) {
	t.Helper()
	e.exec("DELETE FROM marks")
	err := rows.Claim(e.bounded(), tok)
	require.ErrorContains(t, err, says, tok)
	require.Empty(t, outcomes(err), tok)
	require.Zero(t, query[int](e, "SELECT count(*) FROM marks"), tok)
}

// loose creates a collation that ignores the case, and returns its name.
func (e *env) loose() string {
	name := pgx.Identifier{e.schema, "loose"}.Sanitize()
	e.exec("CREATE COLLATION " + name + " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	return name
}

// A row is deleted under #34 and one spelling of its key, and inserted again under #33 and
// another spelling.
//
// hazard G19
func TestAKeyWhoseEqualValuesHaveTwoTexts(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	loose := e.loose()
	pool, _ := wired(t, 2, inMode(pgx.QueryExecModeExec)) // the table changes under statements with the same text
	e.exec("CREATE DOMAIN " + e.schema + ".price AS numeric")
	e.exec("CREATE DOMAIN " + e.schema + ".nick AS text COLLATE " + loose)
	for column, keys := range map[string][2]string{
		"numeric": {"1.0", "1.00"}, e.schema + ".price": {"1.0", "1.00"},
		"text COLLATE " + loose: {"alice", "ALICE"}, "varchar(9) COLLATE " + loose: {"alice", "ALICE"}, e.schema + ".nick": {"alice", "ALICE"},
	} {
		e.exec("DELETE FROM marks")
		e.exec("DROP TABLE IF EXISTS ledger")
		e.exec("CREATE TABLE ledger (k " + column + " PRIMARY KEY, writer text, last_token bigint, last_holder text)")
		says := map[bool]string{true: "type ", false: "collation "}[keys[0] == "1.0"]
		rows := e.keyed(pool, "row/")
		for _, key := range keys {
			unclaimed(t, e, rows, token.Token{Resource: "row/" + key, Number: 33, Holder: "h"}, says)
		}
		e.exec("INSERT INTO ledger (k, last_token, last_holder) VALUES ('" + keys[0] + "', 33, 'h33')")
		for _, key := range keys {
			unclaimed(t, e, rows, token.Token{Resource: "row/" + key, Number: 50, Holder: "h"}, says)
			ctx := token.NewContext(e.bounded(), token.Token{Resource: "row/" + key, Number: 50, Holder: "h"})
			for door, err := range map[string]error{"Upsert": rows.Upsert(ctx, key, nil), "Explain": rows.Explain(ctx, key)} {
				require.ErrorContains(t, err, says, "%s of %q", door, key)
			}
		}
		e.exec("DELETE FROM marks")
		twin := func(key string, number int64, statement string) {
			ctx := token.NewContext(e.bounded(), token.Token{Resource: "row/" + key, Number: number, Holder: "h"})
			_, err := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On("row/"+key).Exec(ctx, e.sql(statement), key)
			require.NoError(t, err, column)
		}
		twin(keys[0], 34, "DELETE FROM ledger WHERE k = $1")
		ctx := token.NewContext(e.bounded(), token.Token{Resource: "row/" + keys[1], Number: 33, Holder: "h"})
		require.ErrorContains(t, rows.Insert(ctx, keys[1], nil), says, column)
		require.Zero(t, query[int](e, "SELECT count(*) FROM ledger"))
		twin(keys[1], 33, "INSERT INTO ledger VALUES ($1)")
		require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger"), "the twin must be corrupted: the deleted row is back")
	}
}

func TestKeysThatNameNothing(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	ctx := e.ctx(33)
	for _, key := range []any{nil, pgtype.UUID{}, (*int)(nil), (*account)(nil), wrapped{nil}, 4.2, true, []byte("42"), [4]byte{}, struct{}{}} {
		err := e.accounts.Update(ctx, key, rowguard.Set{"writer": "x"})
		require.ErrorContains(t, err, "rowguard: ", "%T", key)
		require.NotErrorIs(t, err, token.ErrMissing, "%T", key)
	}
	for _, key := range []any{"", "x\n", strings.Repeat("x", 300)} {
		err := e.accounts.Update(token.NewContext(ctx, token.Token{Resource: fmt.Sprint("account/", key), Number: 33, Holder: "h"}), key, rowguard.Set{"writer": "x"})
		require.Error(t, err)
		require.Empty(t, outcomes(err))
	}
	require.Empty(t, e.writer())
}

// A key is sent as text, and must still be found by its index.
func TestAClaimUsesTheIndex(t *testing.T) {
	t.Parallel()
	for column, make := range map[string]string{"bigint": "i", "uuid": "md5(i::text)::uuid", "text": "i::text"} {
		t.Run("on "+column, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.exec("CREATE TABLE ledger (k " + column + " PRIMARY KEY, last_token bigint, last_holder text)")
			e.exec("INSERT INTO ledger SELECT " + make + ", 0, '' FROM generate_series(1, 5000) i")
			e.exec("ANALYZE ledger")
			key := query[string](e, "SELECT k::text FROM ledger OFFSET 2500 LIMIT 1")
			rows := &rowguard.Table{Guard: e.guard, Name: pgx.Identifier{e.schema, "ledger"}, Key: "k", Prefix: "row/"}
			own, err := rows.Fence(token.NewContext(e.bounded(), token.Token{Resource: "row/" + key, Number: 33, Holder: "h33"}), key)
			require.NoError(t, err)
			f := own.Clauses("t")
			for _, mode := range modes {
				for _, plans := range []string{"force_custom_plan", "force_generic_plan"} {
					pool, _ := wired(t, 1, inMode(mode), withSetting("plan_cache_mode", plans))
					found, err := pool.Query(context.WithoutCancel(t.Context()), e.sql("EXPLAIN UPDATE ledger AS t SET "+f.Set+" WHERE "+f.Where), f.Args...)
					require.NoError(t, err)
					plan, err := pgx.CollectRows(found, pgx.RowTo[string])
					require.NoError(t, err)
					require.Contains(t, strings.Join(plan, "\n"), "Index Scan using ledger_pkey", "%s, %s", mode, plans)
				}
			}
		})
	}
}

func pointerTo[T any](v T) *T { return &v }

// settings are of two sessions that write dates, times, intervals and numbers
// differently.
var settings = [2]map[string]string{
	{"DateStyle": "ISO", "IntervalStyle": "postgres", "TimeZone": "UTC", "extra_float_digits": "1", "bytea_output": "hex"},
	{"DateStyle": "German", "IntervalStyle": "iso_8601", "TimeZone": "Asia/Kathmandu", "extra_float_digits": "-3", "bytea_output": "escape"},
}

func (e *env) twoSessions() (pools [2]*pgxpool.Pool) {
	for i, set := range settings {
		// The tables change under statements with the same text.
		pools[i], _ = wired(e.t, 2, inMode(pgx.QueryExecModeExec), func(c *pgxpool.Config) {
			for name, value := range set {
				c.ConnConfig.RuntimeParams[name] = value
			}
		})
	}
	return pools
}

// keyTypes creates an enum, and domains over domains.
func (e *env) keyTypes() {
	e.exec("CREATE TYPE " + e.schema + ".mood AS ENUM ('sad', 'ok')")
	for name, base := range map[string]string{
		"text_d": "text", "float_d": "double precision", "dates_d": "date[]", "range_d": "tstzrange",
	} {
		e.exec("CREATE DOMAIN " + e.schema + "." + name + " AS " + base)
		e.exec("CREATE DOMAIN " + e.schema + "." + name + "d AS " + e.schema + "." + name)
	}
}

// keyed returns a Table for the ledger, with the key k.
func (e *env) keyed(pool *pgxpool.Pool, prefix string) *rowguard.Table {
	return &rowguard.Table{Guard: e.with(func(g *sqlguard.Guard) { g.DB = pool }), Name: pgx.Identifier{e.schema, "ledger"}, Key: "k", Prefix: prefix}
}

// hazard G19
func TestAKeyHasOneTextInEverySession(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.keyTypes()
	pools := e.twoSessions()
	for column, key := range map[string]string{
		"smallint": "42", "integer": "42", "bigint": "42", "oid": "42", "numeric(4)": "42", "numeric(10,2)": "0.10", "text": "a b", "varchar(20)": "a",
		"char(5)": "ab", "name": "a", "uuid": textID, "boolean": "true", e.schema + ".mood": "ok", "inet": "10.0.0.1/8", "cidr": "10.0.0.0/8",
		"macaddr": "08:00:2b:01:02:03", "macaddr8": "08:00:2b:01:02:03:04:05", "bit(3)": "101", "bit varying": "1011",
		e.schema + ".text_d": "a", e.schema + ".text_dd": "a",
	} {
		e.exec("DELETE FROM marks")
		e.exec("DROP TABLE IF EXISTS ledger")
		e.exec("CREATE TABLE ledger (k " + column + " PRIMARY KEY, writer text, last_token bigint NOT NULL DEFAULT 0, last_holder text NOT NULL DEFAULT '')")
		for i, pool := range pools {
			rows := e.keyed(pool, "row/")
			tok := token.Token{Resource: "row/" + key, Number: int64(33 + i), Holder: "h"}
			ctx := token.NewContext(e.bounded(), tok)
			require.NoError(t, rows.Upsert(ctx, key, nil), column)
			require.NoError(t, rows.Update(ctx, key, rowguard.Set{"writer": "x"}), column)
			require.NoError(t, rows.Claim(e.bounded(), tok), column)
		}
		require.Equal(t, "34", query[string](e, "SELECT string_agg(last_token::text, ' ') FROM ledger"), column)
		require.Equal(t, 1, query[int](e, "SELECT count(*) FROM marks"), column)
	}
}

// hazard G19
func TestAKeyWhoseTextDependsOnTheSession(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.keyTypes()
	pools := e.twoSessions()
	const float = "0.1234567890123456789"
	for column, key := range map[string]struct {
		value   string
		depends bool // on a setting that differs between the two; other types are refused because they are not on the allowlist
	}{
		"date": {"2026-10-30", true}, "timestamp": {"2026-10-30 12:00", true}, "timestamptz": {"2026-10-30 12:00+00", true}, "time": {"12:00", false},
		"timetz": {"12:00+00", false}, "interval": {"1 day", true}, "bytea": {`\x01`, true}, "real": {"0.123456789", true}, "double precision": {float, true},
		"money": {"1.00", false}, "daterange": {"[2026-10-30,2026-11-02)", true}, "tsrange": {"[2026-10-30,2026-11-02)", true}, "tstzrange": {"[2026-10-30 12:00+00,)", true},
		"datemultirange": {"{[2026-10-30,2026-11-02)}", true}, "tstzmultirange": {"{[2026-10-30 12:00+00,)}", true}, "date[]": {"{2026-10-30}", true},
		"interval[]": {"{1 day}", true}, "float8[]": {"{" + float + "}", true}, "int4range": {"[1,2)", false}, "int[]": {"{1}", false}, "jsonb": {"{}", false},
		e.schema + ".float_d": {float, true}, e.schema + ".float_dd": {float, true},
		e.schema + ".dates_dd": {"{2026-10-30}", true}, e.schema + ".range_dd": {"[2026-10-30 12:00+00,)", true},
	} {
		e.exec("DROP TABLE IF EXISTS ledger")
		e.exec("CREATE TABLE ledger (k " + column + " UNIQUE, writer text, last_token bigint, last_holder text)")
		e.exec("INSERT INTO ledger VALUES ($1::text::"+column+", '')", key.value)
		var texts [2]string
		for i, pool := range pools {
			require.NoError(t, pool.QueryRow(t.Context(), e.sql("SELECT k::text FROM ledger")).Scan(&texts[i]))
			rows := e.keyed(pool, "row/")
			tok := token.Token{Resource: "row/" + texts[i], Number: 33, Holder: "h33"}
			ctx := token.NewContext(e.bounded(), tok)
			for door, err := range map[string]error{
				"Upsert": rows.Upsert(ctx, texts[i], nil), "Explain": rows.Explain(ctx, texts[i]),
				"Update": rows.Update(ctx, texts[i], rowguard.Set{"writer": "x"}),
			} {
				require.ErrorContains(t, err, "several texts", "%s of %s", door, column)
			}
			unclaimed(t, e, rows, tok, "several texts")
			e.exec("ALTER TABLE ledger DROP CONSTRAINT IF EXISTS ledger_k_key")
			require.ErrorContains(t, rows.Insert(ctx, texts[i], nil), "several texts", column)
			e.exec("ALTER TABLE ledger ADD UNIQUE (k)")
		}
		require.Equal(t, key.depends, texts[0] != texts[1], "%s: %s", column, texts)
		require.Equal(t, 1, query[int](e, "SELECT count(*) FROM ledger WHERE last_token IS NULL AND writer = ''"), "%s: the one row, as it was", column)
		e.exec("DELETE FROM ledger")
		for i, pool := range pools {
			unclaimed(t, e, e.keyed(pool, "row/"), token.Token{Resource: "row/" + texts[i], Number: 33, Holder: "h33"}, "several texts")
		}
	}
	for column, value := range map[string]string{"daterange": "[2026-10-30,2026-11-02)", "date[]": "{2026-10-30}", e.schema + ".float_dd": float} {
		e.exec("DELETE FROM marks")
		e.exec("DROP TABLE IF EXISTS ledger")
		e.exec("CREATE TABLE ledger (k " + column + " PRIMARY KEY, writer text)")
		e.exec("INSERT INTO ledger VALUES ($1::text::"+column+", '')", value)
		for i, number := range []int64{34, 33} { // the newer token first
			var text string
			require.NoError(t, pools[i].QueryRow(t.Context(), e.sql("SELECT k::text FROM ledger")).Scan(&text))
			ctx := token.NewContext(e.bounded(), token.Token{Resource: "row/" + text, Number: number, Holder: "h"})
			_, err := e.with(func(g *sqlguard.Guard) { g.DB = pools[i] }).On("row/"+text).Exec(ctx, e.sql("UPDATE ledger SET writer = $1"), fmt.Sprint(number))
			require.NoError(t, err, column)
		}
		require.Equal(t, "33", query[string](e, "SELECT writer FROM ledger"), "the twin, which names the row by its text, must be corrupted: %s", column)
	}
}
