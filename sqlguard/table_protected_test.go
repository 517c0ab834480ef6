package sqlguard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestAProtectedTable(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.exec("SELECT "+e.schema+".protect($1, $2)", e.schema+".accounts", "'account/' || id")
	accounts := *e.accounts
	accounts.Protected = true
	for name, door := range rowDoors(e.env, &accounts) {
		if name == "Fence" || name == "Fence, by name" {
			continue // a statement by hand goes through Guard.On there, or behind Join
		}
		require.NoError(t, door(e.ctx(33), "33"), name)
	}
	e.claimed(34)
	require.ErrorIs(t, accounts.Update(e.ctx(33), 42, someone), guard.ErrStale)
	unguarded(t, e.accounts.Update(e.ctx(34), 42, someone)) // not said to be protected
	own, err := accounts.Fence(e.ctx(34), 42)
	require.NoError(t, err)
	_, err = e.guard.On(resource).Exec(e.ctx(34), e.sql("UPDATE accounts AS a SET writer = 'on', "+own.Set("a", 1)+" WHERE "+own.Where("a", 1)), own.Args()...)
	require.NoError(t, err)
	require.Equal(t, "on", e.writer())
}
