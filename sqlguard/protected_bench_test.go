package sqlguard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/token"
)

// The cost of a protected table: a guarded write of it compared with the unguarded write
// of an unprotected table, and, under "trigger", with the guarded write of that table, so
// that only the trigger differs.

func BenchmarkProtected(b *testing.B) {
	for name, where := range map[string]string{"one row": " WHERE id = 42", "10000 rows": ""} {
		// The resource is the same for all rows, and computed from the key.
		e := pair(b, "'account/' || (id - id + 42)", 10_000)
		e.admitted(33)
		tok := token.Token{Resource: resource, Number: 33, Holder: "h33"}
		ctx, on := token.NewContext(b.Context(), tok), e.guard.On(resource)
		plain, accounts := e.sql("UPDATE ledger SET writer = 'x'"+where), e.sql("UPDATE accounts SET writer = 'x'"+where)
		for name, baseline := range map[string]execer{name: e.pool, name + ", trigger": on} {
			b.Run(name, func(b *testing.B) {
				benchratio.Report(b,
					func() error { _, err := baseline.Exec(ctx, plain); return err },
					func() error { _, err := on.Exec(ctx, accounts); return err })
			})
		}
	}
}

// Each row has its own resource, and the transaction is admitted for all of them.
func BenchmarkProtectedOf1000Resources(b *testing.B) {
	e := pair(b, "'account/' || id", 1000)
	var admitted strings.Builder
	admitted.WriteString("\n")
	for id := range 1000 {
		fmt.Fprintf(&admitted, "%s/account/%d\n", e.schema, id+1)
	}
	write := func(table string) func() error {
		ctx, text := b.Context(), e.sql("UPDATE "+table+" SET writer = 'x'")
		return func() error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				// The setting that the admissions would have left.
				if _, err := tx.Exec(ctx, "SELECT set_config('fencepost.admitted', $1, true)", admitted.String()); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, text)
				return err
			})
		}
	}
	benchratio.Report(b, write("ledger"), write("accounts"))
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// pair creates two tables of the same rows, of which accounts is protected. Half of each
// page is free, so that updates can reuse the space.
func pair(b *testing.B, expression string, rows int) *env {
	b.Helper()
	e := newEnv(b)
	for _, table := range []string{"accounts", "ledger"} {
		e.exec("DROP TABLE IF EXISTS " + table)
		e.exec("CREATE TABLE " + table + " (id bigint PRIMARY KEY, writer text NOT NULL DEFAULT '') WITH (fillfactor = 45)")
		e.exec("INSERT INTO "+table+" (id) SELECT generate_series(1, $1::int)", rows)
		e.exec("VACUUM ANALYZE " + table)
	}
	e.exec("SELECT "+e.schema+".protect($1, $2)", e.schema+".accounts", expression)
	return e
}
