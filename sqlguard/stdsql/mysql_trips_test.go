package stdsql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMySQLTripsOfAnUpdate(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	db.claim(t, tok(33, "a"))
	pool := db.connect(t)
	pool.SetMaxOpenConns(1)
	ctx := holding(t, 33, "a")
	trips := func(do func()) int {
		const asked = "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'QUESTIONS'"
		before := one[int](t, pool, asked)
		do()
		return one[int](t, pool, asked) - before - 1
	}
	plain := trips(func() { require.NoError(t, inTx(t, pool, add(ctx, 1))) })
	require.Equal(t, 4, plain)
	guarded := db.over(pool)
	require.Equal(t, plain+5, trips(func() { require.NoError(t, guarded.Update(ctx, account, add(ctx, 1))) }))
	guarded.Idle = -1
	require.Equal(t, plain+3, trips(func() { require.NoError(t, guarded.Update(ctx, account, add(ctx, 1))) }))
}
