package guard_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestDangerouslyObserve(t *testing.T) {
	t.Parallel()
	t.Run("what would be refused is let through and told", func(t *testing.T) {
		t.Parallel()
		var told record
		memory := new(guard.Memory)
		store := guard.DangerouslyObserve{Store: memory, Observer: told.observer()}

		require.NoError(t, store.Admit(t.Context(), tok(33, "a")))
		require.Empty(t, told.observed)

		require.NoError(t, store.Admit(t.Context(), tok(32, "b")))
		require.NoError(t, store.Admit(t.Context(), tok(33, "b")))
		require.NoError(t, store.Admit(t.Context(), tok(34, "")))
		require.Len(t, told.observed, 3)
		require.ErrorIs(t, told.observed[0], guard.ErrStale)
		require.ErrorIs(t, told.observed[1], guard.ErrCollision)
		require.ErrorIs(t, told.observed[2], token.ErrInvalid)
		require.Empty(t, told.refused)
	})
	t.Run("the mark is that of a guard that refuses", func(t *testing.T) {
		t.Parallel()
		memory := new(guard.Memory)
		store := guard.DangerouslyObserve{Store: memory, Observer: new(record).observer()}
		for _, tok := range []token.Token{tok(33, "a"), tok(32, "b"), tok(33, "b")} {
			require.NoError(t, store.Admit(t.Context(), tok))
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, memory.Mark(account))
		}
	})
	t.Run("a store that fails still fails", func(t *testing.T) {
		t.Parallel()
		store := guard.DangerouslyObserve{Store: failing{io.ErrUnexpectedEOF}}
		require.ErrorIs(t, store.Admit(t.Context(), tok(33, "a")), io.ErrUnexpectedEOF)
	})
}

type failing struct{ err error }

func (f failing) Admit(context.Context, token.Token) error { return f.err }
