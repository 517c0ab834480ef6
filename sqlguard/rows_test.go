package sqlguard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/rowguard"
	"github.com/fencepost/fencepost/token"
)

var setWriter = rowguard.Set{"writer": "x"}

// rowsEnv is an env whose accounts carry their own mark, initially #1.
type rowsEnv struct {
	*env
	accounts *rowguard.Table
}

func newRows(t testing.TB) rowsEnv {
	t.Helper()
	e := borrow(t, "rows", func(e *env) {
		e.tables()
		e.exec("SELECT " + e.schema + ".add_mark_columns('accounts'::text::regclass)")
	})
	e.fill()
	e.exec("UPDATE accounts SET last_token = 1, last_holder = 'h1'")
	return rowsEnv{e, e.table(e.guard)}
}

func (e *env) table(g *sqlguard.Guard) *rowguard.Table {
	return &rowguard.Table{Guard: g, Name: pgx.Identifier{e.schema, "accounts"}, Prefix: "account/"}
}

// row returns the mark that account 42 carries.
func (e *env) row() string {
	e.t.Helper()
	return query[string](e, "SELECT coalesce((SELECT last_token || ' ' || last_holder FROM accounts WHERE id = 42), 'gone')")
}

// claimed raises the row's mark with tokens of account 42, in order.
func (e rowsEnv) claimed(numbers ...int64) {
	e.t.Helper()
	for _, n := range numbers {
		require.NoError(e.t, e.accounts.Claim(e.bounded(), tokenOf(n)))
	}
}

// tokenOf returns the token in ctx(number).
func tokenOf(number int64) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: fmt.Sprintf("h%d", number)}
}

// wrapper is a DB that exposes only SendBatch.
type wrapper struct{ *pgx.Conn }

// rowDoors are the ways to write account 42 through a table. Each writes a name.
func rowDoors(e *env, accounts *rowguard.Table) map[string]func(ctx context.Context, writer string) error {
	protected := *accounts
	protected.Protected = true
	set := func(writer string) rowguard.Set { return rowguard.Set{"writer": writer} }
	return map[string]func(ctx context.Context, writer string) error{
		"Update": func(ctx context.Context, writer string) error { return accounts.Update(ctx, 42, set(writer)) },
		"Upsert": func(ctx context.Context, writer string) error { return accounts.Upsert(ctx, 42, set(writer)) },
		"Update, protected": func(ctx context.Context, writer string) error {
			return protected.Update(ctx, 42, set(writer))
		},
		"Delete, then Insert": func(ctx context.Context, writer string) error {
			if err := accounts.Delete(ctx, 42); err != nil {
				return err
			}
			return accounts.Insert(ctx, 42, set(writer))
		},
		"Claim, then Update": func(ctx context.Context, writer string) error {
			tok, err := token.FromContext(ctx, resource)
			if err != nil {
				return err
			}
			if err := accounts.Claim(ctx, tok); err != nil {
				return err
			}
			return accounts.Update(ctx, 42, set(writer))
		},
		"Fence": func(ctx context.Context, writer string) error {
			own, err := accounts.Fence(ctx, 42)
			if err != nil {
				return err
			}
			f := own.Clauses("a", writer)
			tag, err := accounts.Guard.DB.(execer).Exec(ctx, e.sql("UPDATE accounts AS a SET writer = $1, "+f.Set+" WHERE "+f.Where), f.Args...)
			if err == nil && tag.RowsAffected() == 0 {
				err = accounts.Explain(ctx, 42)
			}
			return err
		},
	}
}

// everyDoor are the doors of a guard, and those of a table of it, which begin with "Table.".
func everyDoor(e *env, g *sqlguard.Guard) map[string]func(ctx context.Context, writer string) error {
	all := doors(e, g)
	for name, door := range rowDoors(e, e.table(g)) {
		all["Table."+name] = door
	}
	return all
}
