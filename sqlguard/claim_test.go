package sqlguard_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestClaimBeforeTheSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range levels[1:] {
		t.Run("inside a transaction under "+string(level)+" it is the caller's to do", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			for _, name := range []string{"Update", "On.Exec", "On.Query", "On.SendBatch"} {
				g := e.with(func(g *sqlguard.Guard) { g.DB = e.open(pgx.TxOptions{IsoLevel: level}) })
				require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(doors(e, g)[name](e.ctx(33), "x")), name)
			}
			err := e.guard.Join(e.ctx(33), e.open(pgx.TxOptions{IsoLevel: level}), resource)
			require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(err))
			e.admitted(33)
			require.NoError(t, e.guard.Join(e.ctx(33), e.open(pgx.TxOptions{IsoLevel: level}), resource))
		})
	}
	t.Run("it works whatever the session's defaults are", func(t *testing.T) {
		t.Parallel()
		for _, setting := range [][2]string{
			{"default_transaction_isolation", "serializable"},
			{"default_transaction_isolation", "repeatable read"},
			{"default_transaction_read_only", "on"},
		} {
			e := newEnv(t)
			pool, _ := wired(t, 1, withSetting(setting[0], setting[1]))
			g := e.with(func(g *sqlguard.Guard) { g.DB = pool })
			require.NoError(t, g.Admit(e.bounded(), token.Token{Resource: resource, Number: 33, Holder: "h33"}), setting)
			_, err := g.Mint(e.bounded(), pool, "account/43", "h")
			require.NoError(t, err, setting)
			g.Tx.AccessMode = pgx.ReadWrite
			for name, door := range doors(e, g) {
				if name != "Join" { // its transaction is the test's own
					require.NoError(t, door(e.ctx(34), "x"), "%s, %s", setting, name)
				}
			}
		}
	})
	t.Run("several resources are claimed in one packet", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		pool, w := wired(t, 1)
		g := e.with(func(g *sqlguard.Guard) { g.DB, g.Tx.IsoLevel = pool, pgx.Serializable })
		number := int64(0)
		packets := w.during(func() {
			number++
			ctx := token.NewContext(e.ctx(number), token.Token{Resource: "account/43", Number: number, Holder: "h"})
			require.NoError(t, g.UpdateAll(ctx, []string{"account/43", resource, "account/43"}, func(pgx.Tx) error { return nil }))
		})
		require.Equal(t, int64(5), packets, "refused, rolled back, claimed, admitted, committed")
		require.Equal(t, fmt.Sprintf("%d h", number), e.mark("account/43"))
		require.Equal(t, fmt.Sprintf("%d h%d", number, number), e.mark(resource))
	})
	t.Run("a stale token is told so at the claim", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		e.mutate("admit_slow", "n < t OR o IS NULL AND (t > 0 AND t < n) IS NOT TRUE THEN", "current_setting('transaction_isolation') <> 'read committed' THEN")
		e.exec("INSERT INTO marks VALUES ('account/42', 34, 'h34')")
		err := e.at(pgx.Serializable).Update(e.ctx(33), resource, func(pgx.Tx) error { panic("fn ran") })
		require.Equal(t, []error{guard.ErrStale}, outcomes(err))
		err = e.at(pgx.Serializable).Update(e.ctx(34), resource, func(pgx.Tx) error { panic("fn ran") })
		require.Equal(t, []error{guard.ErrClaimFirst}, outcomes(err), "once, not for ever")
	})
}
