package stdsql_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestALostLeaseIsToldWhatTheMarkSays(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, db *database) {
		db.claim(t, tok(34, "b"))
		ctx, lose := context.WithCancelCause(holding(t, 33, "a"))
		lose(&token.LostError{Token: tok(33, "a")})

		err := db.update(ctx, add(ctx, 10))

		require.ErrorIs(t, err, guard.ErrStale)
		require.ErrorIs(t, err, token.ErrLost)
		require.Equal(t, 100, balance(t, db))
	})
}
