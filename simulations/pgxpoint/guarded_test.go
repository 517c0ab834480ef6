package pgxpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// Beside a guard, each transaction is told once, under one key.
func TestUnderAGuard(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, mode)
			g := &sqlguard.Guard{DB: e.traced, Schema: e.schema}
			tok := token.Token{Resource: "notes", Number: 33, Holder: "a"}
			note := e.sql("INSERT INTO %s.notes (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET text = 'x'")
			write := func(ctx context.Context) func(pgx.Tx) error {
				return func(tx pgx.Tx) error { return exec(ctx, tx, note) }
			}
			for _, c := range []struct {
				name   string
				number int64
				do     func(ctx context.Context) error
				is     error
				steps  []string
			}{
				{"Update, of a token that is new", 33, func(ctx context.Context) error { return g.Update(ctx, "notes", write(ctx)) },
					nil, []string{"begin undone begin admitted statement commit applied", "begin undone"}},
				{"Update", 33, func(ctx context.Context) error { return g.Update(ctx, "notes", write(ctx)) },
					nil, []string{"begin admitted statement commit applied"}},
				{"Update, that lasts", 33, func(ctx context.Context) error {
					return g.Update(ctx, "notes", func(tx pgx.Tx) error { time.Sleep(150 * time.Millisecond); return write(ctx)(tx) })
				}, nil, []string{"begin admitted statement commit applied"}},
				{"Update, whose fn fails", 33, func(ctx context.Context) error { return g.Update(ctx, "notes", func(pgx.Tx) error { return errMine }) },
					errMine, []string{"begin admitted undone"}},
				{"Update, refused", 32, func(ctx context.Context) error { return g.Update(ctx, "notes", write(ctx)) },
					guard.ErrStale, []string{"begin undone"}},
				{"On", 33, func(ctx context.Context) error { _, err := g.On("notes").Exec(ctx, note); return err },
					nil, []string{"begin applied"}},
				{"Admit", 33, func(ctx context.Context) error { return g.Admit(ctx, tok) }, nil, []string{"begin undone"}},
				{"Join", 33, func(ctx context.Context) error {
					return pgx.BeginFunc(ctx, e.traced, func(tx pgx.Tx) error {
						if err := g.Join(ctx, tx, "notes"); err != nil {
							return err
						}
						return write(ctx)(tx)
					})
				}, nil, []string{"begin admitted statement commit applied"}},
				{"On, in a transaction", 33, func(ctx context.Context) error {
					return pgx.BeginFunc(ctx, e.traced, func(tx pgx.Tx) error {
						_, err := (&sqlguard.Guard{DB: tx, Schema: e.schema}).On("notes").Exec(ctx, note)
						return err
					})
				}, nil, []string{"begin statement commit applied"}},
			} {
				t.Run(c.name, func(t *testing.T) {
					var h heard.Record
					ctx := token.NewContext(t.Context(), token.Token{Resource: "notes", Number: c.number, Holder: "a"})
					require.ErrorIs(t, c.do(h.Listen(ctx)), c.is)
					require.Equal(t, c.steps, h.Transactions())
				})
			}
		})
	}
}
