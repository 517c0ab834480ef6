package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/sqlguard"
)

func TestStepsOfATable(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	var h heard.Record
	ctx, zombie := h.Listen(e.ctx(33)), h.Listen(e.ctx(32))
	protected := *e.accounts
	protected.Protected = true
	for name, c := range map[string]struct {
		call  func() error
		is    error
		steps []string
	}{
		"Update":            {func() error { return e.accounts.Update(ctx, 42, someone) }, nil, []string{"begin", "applied"}},
		"Update, refused":   {func() error { return e.accounts.Update(zombie, 42, someone) }, guard.ErrStale, []string{"begin", "undone"}},
		"Update, protected": {func() error { return protected.Update(ctx, 42, someone) }, nil, []string{"begin", "applied"}},
		"Upsert":            {func() error { return e.accounts.Upsert(ctx, 42, someone) }, nil, []string{"begin", "applied"}},
		"Upsert, refused":   {func() error { return e.accounts.Upsert(zombie, 42, someone) }, guard.ErrStale, []string{"begin", "undone"}},
		"Claim":             {func() error { return e.accounts.Claim(ctx, tokenOf(33)) }, nil, []string{"begin", "undone"}},
		"Claim, refused":    {func() error { return e.accounts.Claim(ctx, tokenOf(32)) }, guard.ErrStale, []string{"begin", "undone"}},
		"Claim, observed":   {func() error { return e.accounts.Claim(point.Observe(ctx), tokenOf(32)) }, nil, []string{"begin", "undone"}},
		"Update, observed":  {func() error { return e.accounts.Update(point.Observe(zombie), 42, someone) }, nil, []string{"begin", "applied"}},
		"Update, inside a transaction": {func() error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Update(ctx, 42, someone)
			})
		}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			steps := during(&h, func() { require.ErrorIs(t, c.call(), c.is) })
			require.Equal(t, c.steps, steps)
			for _, key := range h.Keys {
				require.Equal(t, h.Keys[0], key, "one transaction")
			}
		})
	}
}
