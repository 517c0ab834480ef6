package sqlguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestBehindALocker(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	locker := token.Locker{Issuer: &memtoken.Issuer{}, TTL: ceiling, Claim: e.guard.Admit}
	var inside context.Context
	for _, writer := range []string{"first", "second"} {
		require.NoError(t, locker.Hold(e.bounded(), resource, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			require.NoError(t, err)
			require.Equal(t, query[string](e, "SELECT $1::bigint || ' ' || $2", tok.Number, tok.Holder), e.mark(resource), "claimed before the work begins")
			inside = ctx
			return e.guard.Update(ctx, resource, e.write(ctx, writer))
		}))
		require.Equal(t, writer, e.writer())
	}
	for name, door := range doors(e, e.guard) {
		// What outlives its Hold must not write, though nobody came after it.
		require.ErrorIs(t, door(context.WithoutCancel(inside), "late"), token.ErrReleased, name)
	}
	require.Equal(t, "second", e.writer())
}
