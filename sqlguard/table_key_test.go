package sqlguard_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

type (
	uuid    [16]byte        // as of a library, whose own methods say something else
	number  int32           // a defined integer
	name    string          // a defined string
	account struct{ n int } // its text form is that of its number
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
		right []any  // what else stands for it
		wrong []any  // the same key to the column's type, another text
	}{
		"bigint":        {"42", []any{42, int64(42), int8(42), uint64(42), number(42), "42", account{42}, wrapped{int64(42)}, pgtype.Int8{Int64: 42, Valid: true}, new(42)}, []any{"042", "+42", " 42 "}},
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
				rows := &sqlguard.Table{Guard: e.with(func(g *sqlguard.Guard) { g.DB = pool }), Name: pgx.Identifier{e.schema, "ledger"}, Key: "k", Prefix: mode.String() + "/"}
				tok := token.Token{Resource: rows.Prefix + keys.text, Number: 33, Holder: "h33"}
				ctx := token.NewContext(e.bounded(), tok)
				require.NoError(t, rows.Insert(ctx, keys.text, sqlguard.Set{{"writer", "inserted"}}))
				for _, key := range keys.right {
					require.NoError(t, rows.Update(ctx, key, sqlguard.Set{{"writer", "updated"}}), "%T", key)
				}
				require.NoError(t, rows.Claim(e.bounded(), token.Token{Resource: tok.Resource, Number: 34, Holder: "h34"}))
				require.Equal(t, "34 updated", query[string](e, "SELECT last_token || ' ' || writer FROM ledger"))
				require.ErrorIs(t, rows.Update(ctx, keys.text, sqlguard.Set{{"writer", "stale"}}), guard.ErrStale)
				for _, key := range keys.wrong {
					refusesAlias(t, e, rows, key, keys.text)
				}
				require.Equal(t, "34 updated", query[string](e, "SELECT last_token || ' ' || writer FROM ledger"))
			}
		})
	}
	t.Run("where only the collation takes two keys for one", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		loose := pgx.Identifier{e.schema, "loose"}.Sanitize()
		e.exec("CREATE COLLATION " + loose + " (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
		e.exec("CREATE TABLE ledger (id text COLLATE " + loose + " PRIMARY KEY, writer text, last_token bigint, last_holder text COLLATE " + loose + ")")
		e.exec("INSERT INTO ledger VALUES ('alice', '', 33, 'h')")
		rows := &sqlguard.Table{Guard: e.guard, Name: pgx.Identifier{e.schema, "ledger"}, Prefix: "user/"}
		for door, err := range doorsOf(e, rows, "ALICE") {
			require.ErrorContains(t, err, "alice", door)
			require.Empty(t, outcomes(err), door)
		}
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

// doorsOf tries all writes of a key that is there, under a token of its text.
func doorsOf(e *env, rows *sqlguard.Table, key any) map[string]error {
	tok := token.Token{Resource: fmt.Sprint(rows.Prefix, key), Number: 50, Holder: "h50"}
	ctx := token.NewContext(e.bounded(), tok)
	return map[string]error{
		"Update": rows.Update(ctx, key, sqlguard.Set{{"writer", "alias"}}),
		"Upsert": rows.Upsert(ctx, key, nil),
		"Delete": rows.Delete(ctx, key),
		"Claim":  rows.Claim(ctx, tok),
	}
}

// refusesAlias tries a key that the table writes differently, with its row there
// and without.
func refusesAlias(t *testing.T, e *env, rows *sqlguard.Table, alias any, key string) {
	t.Helper()
	for door, err := range doorsOf(e, rows, alias) {
		require.ErrorContains(t, err, key, "%s of %q", door, alias)
		require.Empty(t, outcomes(err), "%s of %q", door, alias)
	}
	row := query[string](e, "SELECT jsonb_agg(l)::text FROM ledger l")
	e.exec("DELETE FROM ledger")
	ctx := token.NewContext(e.bounded(), token.Token{Resource: fmt.Sprint(rows.Prefix, alias), Number: 50, Holder: "h50"})
	require.ErrorContains(t, rows.Insert(ctx, alias, nil), key, "%q", alias)
	require.ErrorContains(t, rows.Upsert(ctx, alias, nil), key, "%q", alias)
	require.ErrorIs(t, rows.Update(ctx, alias, sqlguard.Set{{"writer", "alias"}}), guard.ErrNoRow, "%q", alias)
	require.Zero(t, query[int](e, "SELECT count(*) FROM ledger"))
	e.exec("INSERT INTO ledger SELECT * FROM jsonb_populate_recordset(NULL::ledger, $1)", row)
}

func TestKeysThatNameNothing(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	ctx := e.ctx(33)
	for _, key := range []any{nil, pgtype.UUID{}, (*int)(nil), (*account)(nil), wrapped{nil}, 4.2, true, []byte("42"), [4]byte{}, struct{}{}} {
		err := e.accounts.Update(ctx, key, sqlguard.Set{{"writer", "x"}})
		require.ErrorContains(t, err, "sqlguard: ", "%T", key)
		require.NotErrorIs(t, err, token.ErrMissing, "%T", key)
	}
	for _, key := range []any{"", "x\n", strings.Repeat("x", 300)} {
		err := e.accounts.Update(token.NewContext(ctx, token.Token{Resource: fmt.Sprint("account/", key), Number: 33, Holder: "h"}), key, sqlguard.Set{{"writer", "x"}})
		require.Error(t, err)
		require.Empty(t, outcomes(err))
	}
	require.Empty(t, e.writer())
}

// A key comes as text, and must still be found by its index.
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
			rows := &sqlguard.Table{Guard: e.guard, Name: pgx.Identifier{e.schema, "ledger"}, Key: "k", Prefix: "row/"}
			own, err := rows.Fence(token.NewContext(e.bounded(), token.Token{Resource: "row/" + key, Number: 33, Holder: "h33"}), key)
			require.NoError(t, err)
			for _, mode := range modes {
				for _, plans := range []string{"force_custom_plan", "force_generic_plan"} {
					pool, _ := wired(t, 1, inMode(mode), withSetting("plan_cache_mode", plans))
					found, err := pool.Query(context.WithoutCancel(t.Context()), e.sql("EXPLAIN UPDATE ledger AS t SET "+own.Set("t", 1)+" WHERE "+own.Where("t", 1)), own.Args()...)
					require.NoError(t, err)
					plan, err := pgx.CollectRows(found, pgx.RowTo[string])
					require.NoError(t, err)
					require.Contains(t, strings.Join(plan, "\n"), "Index Scan using ledger_pkey", "%s, %s", mode, plans)
				}
			}
		})
	}
}
