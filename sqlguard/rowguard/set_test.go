package rowguard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

func TestSetsAndTablesThatAreRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for rule, set := range map[string]rowguard.Set{
		"with an empty set":                        {},
		"is empty":                                 {"": 1},
		`"id" is the Table's key or mark`:          {"writer": "x", "id": 7},
		`"last_token" is the Table's key or mark`:  {"last_token": 99},
		`"last_holder" is the Table's key or mark`: {"last_holder": "x"},
		"would cut it":                             {strings.Repeat("x", 64): 1},
		"has a zero byte":                          {"last_token\x00": 1},
	} {
		for range 2 { // and the text is not cached
			require.ErrorContains(t, e.Update(e.ctx(33), 42, set), rule)
			if len(set) > 0 {
				require.ErrorContains(t, e.Upsert(e.ctx(33), 42, set), rule)
			}
		}
	}
	for rule, change := range map[string]func(*rowguard.Table){
		"has no Guard":                    func(a *rowguard.Table) { a.Guard = nil },
		"has no DB":                       func(a *rowguard.Table) { a.Guard = &sqlguard.Guard{} },
		"has no Name":                     func(a *rowguard.Table) { a.Name = nil },
		"is empty":                        func(a *rowguard.Table) { a.Name = pgx.Identifier{""} },
		"has no Prefix":                   func(a *rowguard.Table) { a.Prefix = "" },
		"needs three columns":             func(a *rowguard.Table) { a.Number = "last_holder" },
		"would cut it":                    func(a *rowguard.Table) { a.Key = strings.Repeat("k", 64) },
		"Guard.Tx is read only":           func(a *rowguard.Table) { a.Guard.Tx.AccessMode = pgx.ReadOnly },
		"column t.nowhere does not exist": func(a *rowguard.Table) { a.Number = "nowhere" },
	} {
		rows := e.over(e.pool)
		change(rows)
		require.ErrorContains(t, rows.Update(e.ctx(33), 42, x), rule)
		if !strings.Contains(rule, "nowhere") { // only the server can detect that
			_, err := rows.Fence(e.ctx(33), 42)
			require.ErrorContains(t, err, rule)
		}
		require.Error(t, rows.Claim(e.ctx(33), tokenOf(33)))
	}
	require.Equal(t, "1 h1", e.row())
}

// hazard G13
func TestHostileColumnsAndTables(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("UPDATE fence.accounts SET balance = 0, writer = $1 WHERE id = 42", "x") // a name as it is: "balance = 0, writer"
	require.Zero(t, get[int](e, "SELECT balance FROM fence.accounts WHERE id = 42"), "the twin must be corrupted")
	pools := map[pgx.QueryExecMode]*pgxpool.Pool{}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
		pools[mode] = e.connect(1, mode)
	}
	q := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	for i, evil := range []string{
		`we"ird'; DROP TABLE accounts; --`, `"table"`, `"key"`, `/* set */`, `/* own */`, `$1`, `@key`, `$$ \ %s ?`, "größe", "select", `t."last_token"`, ` `, "a\nb",
	} {
		column := func(n int) string { return evil + strings.Repeat("x", n) }
		_, err := e.pool.Exec(e.base, "CREATE TABLE "+pgx.Identifier{e.schema, evil}.Sanitize()+" ("+q(column(1))+" text PRIMARY KEY, "+q(column(2))+" bigint, "+q(column(3))+" text, "+q(column(4))+" text)")
		require.NoError(t, err)
		for mode, pool := range pools {
			rows := e.over(pool)
			rows.Name, rows.Prefix = pgx.Identifier{e.schema, evil}, fmt.Sprint(i, mode, "/")
			rows.Key, rows.Number, rows.Holder = column(1), column(2), column(3)
			key := mode.String() + "'; DROP TABLE accounts; --"
			as := func(number int64) token.Token {
				return token.Token{Resource: rows.Prefix + key, Number: number, Holder: `h'"\`}
			}
			ctx, set := token.NewContext(e.base, as(33)), rowguard.Set{column(4): evil}
			require.NoError(t, rows.Insert(ctx, key, set), evil)
			require.NoError(t, rows.Update(ctx, key, set), evil)
			require.NoError(t, rows.Upsert(ctx, key, set), evil)
			own, err := rows.Fence(ctx, key)
			require.NoError(t, err)
			f := own.Clauses(evil)
			_, err = pool.Exec(ctx, "UPDATE "+rows.Name.Sanitize()+" AS "+q(evil)+" SET "+f.Set+" WHERE "+f.Where, f.Args...)
			require.NoError(t, err, evil)
			require.NoError(t, rows.Claim(ctx, as(34)), evil)
			require.ErrorIs(t, rows.Update(ctx, key, set), guard.ErrStale, evil)
			require.ErrorIs(t, rows.Delete(ctx, key), guard.ErrStale, evil)
			require.NoError(t, rows.Delete(token.NewContext(ctx, as(35)), key), evil)
		}
		require.Equal(t, 2, get[int](e, "SELECT count(*) FROM fence.accounts"), evil)
	}
}

// A table may already have such columns, nullable and of other types.
func TestMappedColumns(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("ALTER TABLE fence.accounts ADD fence numeric, ADD owner varchar(100)")
	e.Number, e.Holder = "fence", "owner"
	require.Zero(t, e.exec("UPDATE fence.accounts SET fence = 33 WHERE id = 42 AND (fence < 33 OR fence = 33 AND owner = 'h33')"), "the twin must refuse the rightful writer, for ever")
	for _, s := range []step{{"Update 33", nil}, {"Claim 34", nil}, {"Update 33", guard.ErrStale}, {"Claim 33", guard.ErrStale},
		{"SELECT 1 / count(*) FROM fence.accounts WHERE id = 42 AND fence = 34 AND owner = 'h34'", nil},
		{"UPDATE fence.accounts SET fence = 35, owner = NULL", nil}} {
		s.run(t, e)
	}
	require.ErrorIs(t, e.Update(e.ctx(35), 42, x), guard.ErrCollision, "a number without a holder")
	step{"Update 36", nil}.run(t, e)
}
