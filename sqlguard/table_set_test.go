package sqlguard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestSetsAndTablesThatAreRefused(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	for rule, set := range map[string]sqlguard.Set{
		"sets nothing":                     {},
		"not int":                          {{1, "x"}},
		"not <nil>":                        {{}},
		"is empty":                         {{"", 1}},
		`"writer" stands there twice`:      {{"writer", "x"}, {"balance", 1}, {"writer", "y"}},
		`"id" is the Table's own`:          {{"writer", "x"}, {"id", 7}},
		`"last_token" is the Table's own`:  {{"last_token", 99}},
		`"last_holder" is the Table's own`: {{"last_holder", "x"}},
		"would cut it":                     {{strings.Repeat("x", 64), 1}},
		"has a zero byte":                  {{"last_token\x00", 1}},
	} {
		for range 2 { // and the text is not kept
			require.ErrorContains(t, e.accounts.Update(e.ctx(33), 42, set), rule)
			if len(set) > 0 {
				require.ErrorContains(t, e.accounts.Upsert(e.ctx(33), 42, set), rule)
			}
		}
	}
	for rule, change := range map[string]func(*sqlguard.Table){
		"has no Guard":                    func(a *sqlguard.Table) { a.Guard = nil },
		"has no DB":                       func(a *sqlguard.Table) { a.Guard = &sqlguard.Guard{} },
		"has no Name":                     func(a *sqlguard.Table) { a.Name = nil },
		"is empty":                        func(a *sqlguard.Table) { a.Name = pgx.Identifier{""} },
		"has no Prefix":                   func(a *sqlguard.Table) { a.Prefix = "" },
		"needs three columns":             func(a *sqlguard.Table) { a.Number = "last_holder" },
		"would cut it":                    func(a *sqlguard.Table) { a.Key = strings.Repeat("k", 64) },
		"Guard.Tx is read only":           func(a *sqlguard.Table) { a.Guard = e.with(func(g *sqlguard.Guard) { g.Tx.AccessMode = pgx.ReadOnly }) },
		"column t.nowhere does not exist": func(a *sqlguard.Table) { a.Number = "nowhere" },
	} {
		accounts := *e.accounts
		change(&accounts)
		err := accounts.Update(e.ctx(33), 42, someone)
		require.ErrorContains(t, err, rule)
		if !strings.Contains(rule, "nowhere") { // which the server has to say
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
	for i, evil := range hostile {
		column := func(n int) string { return evil + strings.Repeat("x", n) }
		q := func(name string) string { return pgx.Identifier{name}.Sanitize() }
		_, err := e.pool.Exec(t.Context(), "CREATE TABLE "+pgx.Identifier{e.schema, evil}.Sanitize()+" ("+q(column(1))+" text PRIMARY KEY, "+q(column(2))+" bigint, "+q(column(3))+" text, "+q(column(4))+" text)")
		require.NoError(t, err)
		for _, mode := range modes {
			pool, _ := wired(t, 1, inMode(mode))
			rows := &sqlguard.Table{
				Guard: e.with(func(g *sqlguard.Guard) { g.DB = pool }), Name: pgx.Identifier{e.schema, evil}, Prefix: fmt.Sprint(i, mode, "/"),
				Key: column(1), Number: column(2), Holder: column(3),
			}
			key := mode.String() + "'; DROP TABLE accounts; --"
			as := func(number int64) token.Token {
				return token.Token{Resource: rows.Prefix + key, Number: number, Holder: `h'"\`}
			}
			ctx := token.NewContext(e.bounded(), as(33))
			set := sqlguard.Set{{column(4), evil}}
			require.NoError(t, rows.Insert(ctx, key, set), evil)
			require.NoError(t, rows.Update(ctx, key, set), evil)
			require.NoError(t, rows.Upsert(ctx, key, set), evil)
			own, err := rows.Fence(ctx, key)
			require.NoError(t, err)
			text := "UPDATE " + rows.Name.Sanitize() + " AS " + q(evil) + " SET " + own.Set(evil, 1) + " WHERE " + own.Where(evil, 1)
			_, err = pool.Exec(ctx, text, own.Args()...)
			require.NoError(t, err, text)
			text = "UPDATE " + rows.Name.Sanitize() + " AS " + q(evil) + " SET " + own.Set(evil, sqlguard.ByName) + " WHERE " + own.Where(evil, sqlguard.ByName)
			_, err = pool.Exec(ctx, text, own.NamedArgs())
			require.NoError(t, err, text)
			require.NoError(t, rows.Claim(ctx, as(34)), evil)
			require.ErrorIs(t, rows.Update(ctx, key, set), guard.ErrStale, evil)
			require.ErrorIs(t, rows.Delete(ctx, key), guard.ErrStale, evil)
			require.NoError(t, rows.Delete(token.NewContext(ctx, as(35)), key), evil)
		}
		require.Equal(t, 2, query[int](e, "SELECT count(*) FROM accounts"), evil)
	}
}

// A table may have such columns already, nullable and of other types.
func TestMappedColumns(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("ALTER TABLE accounts ADD fence numeric, ADD owner varchar(100)")
	accounts := e.table(e.guard)
	accounts.Number, accounts.Holder = "fence", "owner"
	naive, err := e.pool.Exec(t.Context(), e.sql("UPDATE accounts SET fence = 33 WHERE id = 42 AND (fence < 33 OR fence = 33 AND owner = 'h33')"))
	require.NoError(t, err)
	require.Zero(t, naive.RowsAffected(), "the twin must refuse the rightful writer, for ever")
	require.NoError(t, accounts.Update(e.ctx(33), 42, someone))
	require.NoError(t, accounts.Claim(e.bounded(), tokenOf(34)))
	require.ErrorIs(t, accounts.Update(e.ctx(33), 42, someone), guard.ErrStale)
	require.ErrorIs(t, accounts.Claim(e.bounded(), tokenOf(33)), guard.ErrStale)
	require.Equal(t, "34 h34", query[string](e, "SELECT fence || ' ' || owner FROM accounts WHERE id = 42"))
	e.exec("UPDATE accounts SET fence = 35, owner = NULL")
	require.ErrorIs(t, accounts.Update(e.as(35, "h35"), 42, someone), guard.ErrCollision, "whose number it is nobody knows")
	require.NoError(t, accounts.Update(e.ctx(36), 42, someone))
}
