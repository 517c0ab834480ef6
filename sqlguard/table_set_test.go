package sqlguard_test

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
	e := newRows(t)
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
			require.ErrorContains(t, e.accounts.Update(e.ctx(33), 42, set), rule)
			if len(set) > 0 {
				require.ErrorContains(t, e.accounts.Upsert(e.ctx(33), 42, set), rule)
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
		"Guard.Tx is read only":           func(a *rowguard.Table) { a.Guard = e.with(func(g *sqlguard.Guard) { g.Tx.AccessMode = pgx.ReadOnly }) },
		"column t.nowhere does not exist": func(a *rowguard.Table) { a.Number = "nowhere" },
	} {
		accounts := *e.accounts
		change(&accounts)
		err := accounts.Update(e.ctx(33), 42, setWriter)
		require.ErrorContains(t, err, rule)
		if !strings.Contains(rule, "nowhere") { // only the server can detect that
			_, err = accounts.Fence(e.ctx(33), 42)
			require.ErrorContains(t, err, rule)
		}
		require.Error(t, accounts.Claim(e.ctx(33), tokenOf(33)))
	}
	require.Equal(t, "1 h1", e.row())
	require.Empty(t, e.writer())
}

// hazard G13
func TestHostileColumnsAndTables(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	naive := func(column string) error {
		_, err := e.pool.Exec(t.Context(), e.sql("UPDATE accounts SET "+column+" = $1 WHERE id = 42"), "x")
		return err
	}
	require.NoError(t, naive("balance = 0, writer"))
	require.Zero(t, e.balance(), "the twin, a name as it is, must be corrupted")
	hostile := []string{
		`we"ird'; DROP TABLE accounts; --`, `"table"`, `"key"`, `/* set */`, `/* own */`, `$1`, `@fence_key`, `$$ \ %s ?`, "größe", "select", `t."last_token"`, ` `, "a\nb",
	}
	pools := map[pgx.QueryExecMode]*pgxpool.Pool{}
	for _, mode := range quotingModes {
		pools[mode], _ = wired(t, 1, inMode(mode))
	}
	for i, evil := range hostile {
		column := func(n int) string { return evil + strings.Repeat("x", n) }
		q := func(name string) string { return pgx.Identifier{name}.Sanitize() }
		_, err := e.pool.Exec(t.Context(), "CREATE TABLE "+pgx.Identifier{e.schema, evil}.Sanitize()+" ("+q(column(1))+" text PRIMARY KEY, "+q(column(2))+" bigint, "+q(column(3))+" text, "+q(column(4))+" text)")
		require.NoError(t, err)
		for mode, pool := range pools {
			rows := &rowguard.Table{
				Guard: e.by(pool), Name: pgx.Identifier{e.schema, evil}, Prefix: fmt.Sprint(i, mode, "/"),
				Key: column(1), Number: column(2), Holder: column(3),
			}
			key := mode.String() + "'; DROP TABLE accounts; --"
			as := func(number int64) token.Token {
				return token.Token{Resource: rows.Prefix + key, Number: number, Holder: `h'"\`}
			}
			ctx := token.NewContext(e.bounded(), as(33))
			set := rowguard.Set{column(4): evil}
			require.NoError(t, rows.Insert(ctx, key, set), evil)
			require.NoError(t, rows.Update(ctx, key, set), evil)
			require.NoError(t, rows.Upsert(ctx, key, set), evil)
			own, err := rows.Fence(ctx, key)
			require.NoError(t, err)
			f := own.Clauses(evil)
			text := "UPDATE " + rows.Name.Sanitize() + " AS " + q(evil) + " SET " + f.Set + " WHERE " + f.Where
			_, err = pool.Exec(ctx, text, f.Args...)
			require.NoError(t, err, text)
			named := own.Named(evil, nil)
			text = "UPDATE " + rows.Name.Sanitize() + " AS " + q(evil) + " SET " + named.Set + " WHERE " + named.Where
			_, err = pool.Exec(ctx, text, named.Args)
			require.NoError(t, err, text)
			require.NoError(t, rows.Claim(ctx, as(34)), evil)
			require.ErrorIs(t, rows.Update(ctx, key, set), guard.ErrStale, evil)
			require.ErrorIs(t, rows.Delete(ctx, key), guard.ErrStale, evil)
			require.NoError(t, rows.Delete(token.NewContext(ctx, as(35)), key), evil)
		}
		require.Equal(t, 2, query[int](e, "SELECT count(*) FROM accounts"), evil)
	}
}

// A table may already have such columns, nullable and of other types.
func TestMappedColumns(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("ALTER TABLE accounts ADD fence numeric, ADD owner varchar(100)")
	accounts := e.table(e.guard)
	accounts.Number, accounts.Holder = "fence", "owner"
	naive, err := e.pool.Exec(t.Context(), e.sql("UPDATE accounts SET fence = 33 WHERE id = 42 AND (fence < 33 OR fence = 33 AND owner = 'h33')"))
	require.NoError(t, err)
	require.Zero(t, naive.RowsAffected(), "the twin must refuse the rightful writer, for ever")
	require.NoError(t, accounts.Update(e.ctx(33), 42, setWriter))
	require.NoError(t, accounts.Claim(e.bounded(), tokenOf(34)))
	require.ErrorIs(t, accounts.Update(e.ctx(33), 42, setWriter), guard.ErrStale)
	require.ErrorIs(t, accounts.Claim(e.bounded(), tokenOf(33)), guard.ErrStale)
	require.Equal(t, "34 h34", query[string](e, "SELECT fence || ' ' || owner FROM accounts WHERE id = 42"))
	e.exec("UPDATE accounts SET fence = 35, owner = NULL")
	require.ErrorIs(t, accounts.Update(e.as(35, "h35"), 42, setWriter), guard.ErrCollision, "a number without a holder")
	require.NoError(t, accounts.Update(e.ctx(36), 42, setWriter))
}
