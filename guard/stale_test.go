package guard_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestStaleError(t *testing.T) {
	t.Parallel()
	stale := &guard.StaleError{Token: tok(32, "b"), Mark: guard.Mark{Number: 33, Holder: "secret"}}
	collision := &guard.StaleError{Token: tok(33, "b"), Mark: guard.Mark{Number: 33, Holder: "secret"}}
	untold := &guard.StaleError{Token: tok(32, "b")}

	t.Run("a lesser number is stale and no collision", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, stale, guard.ErrStale)
		require.NotErrorIs(t, stale, guard.ErrCollision)
		require.EqualError(t, stale, "guard: stale token account/42#32: mark is newer")
	})
	t.Run("an equal number is a collision and stale", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, collision, guard.ErrStale)
		require.ErrorIs(t, collision, guard.ErrCollision)
		require.EqualError(t, collision, "guard: token account/42#33 collides: the mark has this number from another holder")
	})
	t.Run("a mark that is not told is no collision", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, untold, guard.ErrStale)
		require.NotErrorIs(t, untold, guard.ErrCollision)
	})
	t.Run("the text tells nobody the mark", func(t *testing.T) {
		t.Parallel()
		for _, err := range []error{stale, collision} {
			require.NotContains(t, err.Error(), "secret")
		}
		require.NotContains(t, stale.Error(), "33")
	})
	t.Run("it is found inside other errors", func(t *testing.T) {
		t.Parallel()
		var found *guard.StaleError
		require.ErrorAs(t, fmt.Errorf("withdraw: %w", errors.Join(io.EOF, stale)), &found)
		require.Same(t, stale, found)
	})
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&guard.StaleError{Token: tok(32, "b")}, guard.ErrStale,
		&token.MissingError{Resource: account}, token.ErrReleased, tok(33, "").Check(),
	} {
		require.True(t, guard.Refusal(err), "%v", err)
		require.True(t, guard.Refusal(fmt.Errorf("withdraw: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nil, io.EOF, token.ErrLost, token.ErrHeld,
		guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst,
	} {
		require.False(t, guard.Refusal(err), "%v", err)
	}
}

func TestOutcomesAreToldApart(t *testing.T) {
	t.Parallel()
	outcomes := []error{
		guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst,
	}
	for i, one := range outcomes {
		for j, other := range outcomes {
			require.Equal(t, i == j, errors.Is(one, other), "%v, %v", one, other)
		}
	}
}
