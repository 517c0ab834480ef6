package sqlguard_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/sqlguard"
)

func TestIdleBound(t *testing.T) {
	t.Parallel()
	bound := func(t *testing.T, g *sqlguard.Guard, e *env, before string) (inside, after string) {
		conn, err := e.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(t.Context(), "SET idle_in_transaction_session_timeout = "+before)
		require.NoError(t, err)
		defer conn.Exec(t.Context(), "RESET idle_in_transaction_session_timeout")
		own := *g
		own.DB = conn
		show := "SHOW idle_in_transaction_session_timeout"
		require.NoError(t, own.Update(e.ctx(33), resource, func(tx pgx.Tx) error {
			return tx.QueryRow(t.Context(), show).Scan(&inside)
		}))
		require.NoError(t, conn.QueryRow(t.Context(), show).Scan(&after))
		return inside, after
	}
	for _, c := range []struct {
		idle                  time.Duration
		before, inside, after string
	}{
		{0, "0", "5s", "0"},
		{0, "'1min'", "5s", "1min"},
		{0, "'3s'", "3s", "3s"},
		{time.Minute, "'90min'", "1min", "90min"},
		{20*time.Second + time.Microsecond, "0", "20001ms", "0"},
		{-1, "0", "0", "0"},
		{-1, "'2h'", "2h", "2h"},
		{1 << 62, "'2h'", "2h", "2h"},
	} {
		t.Run("Idle "+c.idle.String()+" in a session that has "+c.before, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			inside, after := bound(t, e.with(func(g *sqlguard.Guard) { g.Idle = c.idle }), e, c.before)
			require.Equal(t, c.inside, inside)
			require.Equal(t, c.after, after, "it ends with the transaction")
		})
	}
}
