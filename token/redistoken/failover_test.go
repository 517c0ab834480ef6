package redistoken_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R1
func TestFailoverGrantsTheSameNumberTwice(t *testing.T) {
	t.Parallel()
	master, prefix := testenv.Redis(t)
	replica := testenv.SpareRedis(t)
	key := counterKey(prefix, resource)
	// The counter is ahead of the clock, so that the clock cannot help.
	require.NoError(t, master.Set(t.Context(), key, clock()+360_000_000, 0).Err())
	// The replica is cut off with what it has by now, and promoted later.
	dump, err := master.Dump(t.Context(), key).Result()
	require.NoError(t, err)
	require.NoError(t, replica.Restore(t.Context(), key, 0, dump).Err())

	before := acquire(t, &redistoken.Issuer{Client: master, Prefix: prefix}, "before")
	after := acquire(t, &redistoken.Issuer{Client: replica, Prefix: prefix}, "after")
	require.Equal(t, before.Number, after.Number, "this test must force equal numbers")

	t.Run("the holder beside the mark refuses the second holder", func(t *testing.T) {
		var store guard.Memory
		require.NoError(t, store.Admit(t.Context(), after))
		require.ErrorIs(t, store.Admit(t.Context(), before), guard.ErrCollision)
		require.NoError(t, store.Admit(t.Context(), after))
	})
	t.Run("a mark of the number alone lets both in", func(t *testing.T) {
		var mark int64
		admit := func(tok token.Token) bool {
			admitted := mark <= tok.Number
			mark = max(mark, tok.Number)
			return admitted
		}
		require.True(t, admit(after))
		require.True(t, admit(before), "the naive mark must be fooled")
	})
}
