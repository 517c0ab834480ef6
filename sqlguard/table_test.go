package sqlguard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/sqlguard"
)

func TestTableInEveryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("in mode "+mode.String(), func(t *testing.T) {
			t.Parallel()
			e := newRows(t)
			pool, w := wired(t, 1, inMode(mode))
			conn, err := pool.Acquire(t.Context())
			require.NoError(t, err)
			plain := conn.Conn()
			for kind, db := range map[string]sqlguard.DB{"a connection": plain, "a pool's connection": conn, "a wrapper": wrapper{plain}} {
				for name, door := range rowDoors(e.env, e.table(e.with(func(g *sqlguard.Guard) { g.DB = db }))) {
					t.Run(name+" on "+kind, func(t *testing.T) { throughRow(t, e.env, door) })
				}
			}
			conn.Release()
			for name, door := range rowDoors(e.env, e.table(e.with(func(g *sqlguard.Guard) { g.DB = pool }))) {
				t.Run(name+" on a pool", func(t *testing.T) { throughRow(t, e.env, door) })
			}
			require.Equal(t, int64(1), w.dials.Load(), "no refusal costs a connection")
		})
	}
}
