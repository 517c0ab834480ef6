package stdsql_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
	"github.com/fencepost/fencepost/token"
)

func TestALostLeaseIsToldWhatTheMarkSays(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	require.NoError(t, (&stdsql.Guard{DB: db}).Admit(t.Context(), tok(34, "b")))
	ctx, lose := context.WithCancelCause(holding(t, 33, "a"))
	lose(&token.LostError{Token: tok(33, "a")})

	err := stdsql.Update(ctx, db, account, add(ctx, 10))

	require.ErrorIs(t, err, guard.ErrStale)
	require.ErrorIs(t, err, token.ErrLost)
	require.Equal(t, 100, balance(t, db))
}
