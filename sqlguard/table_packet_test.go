package sqlguard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

func TestPacketsOfATable(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	pool, w := wired(t, 1)
	accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))
	observing := e.table(e.with(func(g *sqlguard.Guard) {
		g.DB, g.DangerouslyObserve = pool, true
		g.Observer.Observed = func(context.Context, error) {}
	}))
	protected := *accounts
	protected.Protected = true
	e.claimed(33)
	ctx, zombie := e.ctx(33), e.ctx(32)
	for name, c := range map[string]struct {
		packets int64
		call    func() error
		is      error
	}{
		"the plain statement": {1, func() error {
			_, err := pool.Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = $2"), "x", 42)
			return err
		}, nil},
		"Update":              {1, func() error { return accounts.Update(ctx, 42, someone) }, nil},
		"Update, refused":     {2, func() error { return accounts.Update(zombie, 42, someone) }, guard.ErrStale},
		"Update, observed":    {1, func() error { return observing.Update(zombie, 42, someone) }, nil},
		"Update, protected":   {1, func() error { return protected.Update(ctx, 42, someone) }, nil},
		"Upsert":              {1, func() error { return accounts.Upsert(ctx, 42, someone) }, nil},
		"Upsert, refused":     {1, func() error { return accounts.Upsert(zombie, 42, someone) }, guard.ErrStale},
		"Delete, then Insert": {2, func() error { return rowDoors(e.env, accounts)["Delete, then Insert"](ctx, "x") }, nil},
		"Delete, refused":     {1, func() error { return accounts.Delete(zombie, 42) }, guard.ErrStale},
		"Claim":               {1, func() error { return accounts.Claim(ctx, tokenOf(33)) }, nil},
		"Claim, refused":      {2, func() error { return accounts.Claim(ctx, tokenOf(32)) }, guard.ErrStale},
		"Claim, observed":     {1, func() error { return observing.Claim(ctx, tokenOf(32)) }, nil},
		"Explain":             {1, func() error { return accounts.Explain(zombie, 42) }, guard.ErrStale},
	} {
		t.Run(fmt.Sprintf("%s: %d", name, c.packets), func(t *testing.T) {
			require.Equal(t, c.packets, w.during(func() { require.ErrorIs(t, c.call(), c.is) }))
		})
	}
	require.Equal(t, int64(1), w.dials.Load(), "the connection survives every refusal")
}
