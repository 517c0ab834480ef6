// Package simulations_test proves, on real servers, that a paused writer is
// refused.
package simulations_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/paused"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestPausedWriterIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("Redis issuer", func(t *testing.T) {
		t.Parallel()
		paused.Story(t, func(t *testing.T, _ *sqlguard.Guard) paused.Lock {
			client, prefix := testenv.Redis(t)
			return paused.Short(&redistoken.Issuer{Client: client, Prefix: prefix})
		})
	})
	t.Run("PostgreSQL issuer", func(t *testing.T) {
		t.Parallel()
		paused.Story(t, func(_ *testing.T, fence *sqlguard.Guard) paused.Lock {
			return paused.Short(&pgtoken.Issuer{DB: fence.DB, Schema: fence.Schema})
		})
	})
}
