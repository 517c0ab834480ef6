package pgtoken_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

// hazard P8
func TestAdvisoryRefusesAPooler(t *testing.T) {
	t.Parallel()
	direct, schema := testenv.Postgres(t)
	through := pooled(t, testenv.PgBouncer(t), pgx.QueryExecModeExec)
	iss := advisory(t, through, schema)
	key := advisoryKey(schema)
	for _, call := range []func() error{
		func() error { _, err := iss.Acquire(t.Context(), resource, "a", long); return err },
		func() error { _, err := iss.Wait(t.Context(), resource, "a", long); return err },
	} {
		err := call()
		require.ErrorContains(t, err, "fencepost: a pooler is in between: the client was told of process ")
		require.NotErrorIs(t, err, token.ErrHeld)
	}
	require.True(t, query[bool](t, direct, tryLock+key, resource), "nothing was taken")
	exec(t, direct, "SELECT pg_advisory_unlock_all()")

	t.Run("the session that is behind it has the lock for all", func(t *testing.T) {
		first, err := through.Acquire(t.Context())
		require.NoError(t, err)
		defer first.Release()
		second, err := through.Acquire(t.Context())
		require.NoError(t, err)
		defer second.Release()
		require.True(t, query[bool](t, first, tryLock+key, "other"))
		require.True(t, query[bool](t, second, tryLock+key, "other"), "two clients must have it at once")
	})
}
