package sqlguard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestPackets(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pool, w := wired(t, 1)
	g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
	observing := e.with(func(g *sqlguard.Guard) {
		g.DB, g.DangerouslyObserve = pool, true
		g.Observer.Observed = func(context.Context, error) {}
	})
	e.admitted(33)
	ctx, zombie := e.ctx(33), e.ctx(32)
	statement := e.sql("UPDATE accounts SET writer = 'x' WHERE id = 42")
	e.exec("CREATE PROCEDURE " + e.schema + ".nothing() LANGUAGE sql AS ''")
	call := "CALL " + e.schema + ".nothing()"
	plainly := func() {
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		require.NoError(t, e.write(ctx, "x")(tx))
		require.NoError(t, tx.Commit(ctx))
	}
	both := token.NewContext(ctx, token.Token{Resource: "account/43", Number: 33, Holder: "h33"})
	require.NoError(t, e.guard.Admit(ctx, token.Token{Resource: "account/43", Number: 33, Holder: "h33"}))

	var fresh int64
	for name, c := range map[string]struct {
		packets int64
		call    func() error
		is      error
	}{
		"Update, with the closure's one statement": {3, func() error { return g.Update(ctx, resource, e.write(ctx, "x")) }, nil},
		"UpdateAll, with the closure's one statement": {3, func() error {
			return g.UpdateAll(both, []string{resource, "account/43"}, e.write(ctx, "x"))
		}, nil},
		"Update that lasts, which asks before it commits": {4, func() error {
			return g.Update(ctx, resource, func(tx pgx.Tx) error { time.Sleep(150 * time.Millisecond); return e.write(ctx, "x")(tx) })
		}, nil},
		"On, under a token that is new each time": {3, func() error {
			fresh++
			_, err := g.On("account/45").Exec(token.NewContext(ctx, token.Token{Resource: "account/45", Number: fresh, Holder: "h"}), statement)
			return err
		}, nil},
		"Update, refused":        {2, func() error { return g.Update(zombie, resource, e.write(ctx, "x")) }, guard.ErrStale},
		"Update, observed":       {3, func() error { return observing.Update(zombie, resource, e.write(ctx, "x")) }, nil},
		"On":                     {1, func() error { _, err := g.On(resource).Exec(ctx, statement); return err }, nil},
		"On, refused":            {1, func() error { _, err := g.On(resource).Exec(zombie, statement); return err }, guard.ErrStale},
		"On, of a CALL":          {1, func() error { _, err := g.On(resource).Exec(ctx, call); return err }, nil},
		"On, of a CALL, refused": {2, func() error { _, err := g.On(resource).Exec(zombie, call); return err }, guard.ErrStale},
		"On, with a level of its own, refused": {2, func() error {
			_, err := e.with(func(g *sqlguard.Guard) { g.DB, g.Tx.IsoLevel = pool, pgx.ReadCommitted }).On(resource).Exec(zombie, statement)
			return err
		}, guard.ErrStale},
		"On, observed":   {1, func() error { _, err := observing.On(resource).Exec(zombie, statement); return err }, nil},
		"Admit":          {1, func() error { return g.Admit(ctx, token.Token{Resource: resource, Number: 33, Holder: "h33"}) }, nil},
		"Admit, refused": {2, func() error { return g.Admit(ctx, token.Token{Resource: resource, Number: 32, Holder: "h32"}) }, guard.ErrStale},
		"Mint":           {1, func() error { _, err := g.Mint(ctx, pool, "account/44", "h"); return err }, nil},
		"a batch": {1, func() error {
			b := &pgx.Batch{}
			b.Queue(statement)
			b.Queue(statement)
			return g.On(resource).SendBatch(ctx, b).Close()
		}, nil},
		"a batch, refused": {2, func() error {
			b := &pgx.Batch{}
			b.Queue(statement)
			return g.On(resource).SendBatch(zombie, b).Close()
		}, guard.ErrStale},
		"a query": {1, func() error { return g.On(resource).QueryRow(ctx, statement+" RETURNING id").Scan(nil) }, nil},
	} {
		t.Run(fmt.Sprintf("%s: %d", name, c.packets), func(t *testing.T) {
			got := w.during(func() { require.ErrorIs(t, c.call(), c.is) })
			require.Equal(t, c.packets, got)
		})
	}
	require.Equal(t, int64(3), w.during(plainly), "the unguarded closure")
	require.Equal(t, int64(1), w.dials.Load(), "the connection survives every refusal")
}
