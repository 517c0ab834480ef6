package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// A caller branches by errors.Is: each outcome matches itself only, and only a refusal is
// about the token.
func TestEachOutcomeIsItself(t *testing.T) {
	t.Parallel()
	all := []error{guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrRowNotFound, guard.ErrStale, guard.ErrCollision}
	for i, outcome := range all {
		err := fmt.Errorf("withdraw: %w", outcome)
		for j, other := range all {
			require.Equal(t, i == j, errors.Is(err, other), "%v, %v", err, other)
		}
		require.Equal(t, outcome == guard.ErrStale, guard.IsRefusal(err), "%v", err)
	}
}

func TestStaleError(t *testing.T) {
	t.Parallel()
	stale := &guard.StaleError{Token: tok(32, "b"), Mark: guard.Mark{Number: 33, Holder: "web-1:4711/billing:7:c2f1"}}
	collision := &guard.StaleError{Token: tok(33, "b"), Mark: guard.Mark{Number: 33, Holder: "web-1:4711/billing:7:c2f1"}}
	withoutMark := &guard.StaleError{Token: tok(32, "b")}

	t.Run("a lesser number is stale and no collision", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, stale, guard.ErrStale)
		require.NotErrorIs(t, stale, guard.ErrCollision)
		require.EqualError(t, stale, `guard: stale token account/42#32: overtaken by #33 of web-1:4711/billing:7:c2f1`)
	})
	t.Run("an equal number is a collision and stale", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, collision, guard.ErrStale)
		require.ErrorIs(t, collision, guard.ErrCollision)
		require.EqualError(t, collision, `guard: token account/42#33 collides: web-1:4711/billing:7:c2f1 has the same number`)
	})
	t.Run("a mark that is not reported is no collision", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, withoutMark, guard.ErrStale)
		require.NotErrorIs(t, withoutMark, guard.ErrCollision)
	})
	t.Run("the text says what is known of the mark", func(t *testing.T) {
		t.Parallel()
		require.EqualError(t, withoutMark, "guard: stale token account/42#32: mark is newer")
		cut := &guard.StaleError{Token: tok(32, "b"), Mark: guard.Mark{Number: 32}} // by a proxy that drops DETAIL
		require.EqualError(t, cut, "guard: token account/42#32 collides: another holder has the same number")
		pruned := &guard.StaleError{Token: tok(32, "b"), Mark: guard.Mark{Number: 33}}
		require.EqualError(t, pruned, "guard: stale token account/42#32: below the floor, #33")
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
		&token.MissingError{Resource: account}, token.ErrReleased, tok(33, "").Validate(),
	} {
		require.True(t, guard.IsRefusal(err), "%v", err)
		require.True(t, guard.IsRefusal(fmt.Errorf("withdraw: %w", err)), "%v", err)
	}
	for _, err := range []error{
		nil, io.EOF, token.ErrLost, token.ErrHeld,
		guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst,
	} {
		require.False(t, guard.IsRefusal(err), "%v", err)
	}
}

func TestOutcomesAreDistinct(t *testing.T) {
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

func TestDismissedIsNoRefusal(t *testing.T) {
	t.Parallel()
	tok := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
	cause := &guard.DismissedError{Token: tok}
	require.ErrorIs(t, cause, guard.ErrStale)
	require.EqualError(t, cause, "guard: a newer token than account/42#33 has arrived")
	require.False(t, guard.IsRefusal(fmt.Errorf("client: %w", cause)), "it may have been applied")
	require.True(t, guard.IsRefusal(errors.Join(cause, &guard.StaleError{Token: tok})))

	ctx, dismiss := context.WithCancelCause(t.Context())
	dismiss(cause)
	for _, err := range []error{context.Canceled, cause, fmt.Errorf("nothing was sent: %w", cause)} {
		said := guard.WithCause(ctx, err)
		require.True(t, guard.IsRefusal(said), "a guard knows")
		require.ErrorIs(t, said, err)
		var stale *guard.StaleError
		require.ErrorAs(t, said, &stale)
		require.Equal(t, tok, stale.Token)
	}
	for _, err := range []error{errors.New("no such table"), guard.ErrUnknown, errors.Join(context.Canceled, guard.ErrUnknown)} {
		require.Equal(t, err, guard.WithCause(ctx, err))
	}
	require.NoError(t, guard.WithCause(ctx, nil))
	require.Equal(t, context.Canceled, guard.WithCause(t.Context(), context.Canceled))

	var marks guard.Memory
	err := marks.Admit(ctx, tok)
	require.True(t, guard.IsRefusal(err))
	require.Zero(t, marks.Mark("account/42"))
}
