package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestDismissedIsNoRefusal(t *testing.T) {
	t.Parallel()
	tok := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
	cause := &guard.DismissedError{Token: tok}
	require.ErrorIs(t, cause, guard.ErrStale)
	require.EqualError(t, cause, "guard: a newer token than account/42#33 has come")
	require.False(t, guard.Refusal(fmt.Errorf("client: %w", cause)), "it may have been applied")
	require.True(t, guard.Refusal(errors.Join(cause, &guard.StaleError{Token: tok})))

	ctx, dismiss := context.WithCancelCause(t.Context())
	dismiss(cause)
	for _, err := range []error{context.Canceled, cause, fmt.Errorf("nothing was sent: %w", cause)} {
		said := guard.WithLoss(ctx, err)
		require.True(t, guard.Refusal(said), "a guard knows")
		require.ErrorIs(t, said, err)
		var stale *guard.StaleError
		require.ErrorAs(t, said, &stale)
		require.Equal(t, tok, stale.Token)
	}
	for _, err := range []error{errors.New("no such table"), guard.ErrUnknown, errors.Join(context.Canceled, guard.ErrUnknown)} {
		require.Equal(t, err, guard.WithLoss(ctx, err))
	}
	require.NoError(t, guard.WithLoss(ctx, nil))
	require.Equal(t, context.Canceled, guard.WithLoss(t.Context(), context.Canceled))

	var marks guard.Memory
	err := marks.Admit(ctx, tok)
	require.True(t, guard.Refusal(err))
	require.Zero(t, marks.Mark("account/42"))
}
