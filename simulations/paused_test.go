// Package simulations_test tests on real servers that a paused writer is refused.
package simulations_test

import (
	"testing"

	"github.com/fencepost/fencepost/internal/test/pausetest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestPausedWriterIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("Redis issuer", func(t *testing.T) {
		t.Parallel()
		pausetest.Run(t, func(t *testing.T, _ *sqlguard.Guard) pausetest.Lock {
			client, prefix := testenv.Redis(t)
			return pausetest.ShortLease(&redistoken.Issuer{Client: client, Prefix: prefix})
		})
	})
	t.Run("PostgreSQL issuer", func(t *testing.T) {
		t.Parallel()
		pausetest.Run(t, func(_ *testing.T, fence *sqlguard.Guard) pausetest.Lock {
			return pausetest.ShortLease(&pgtoken.Issuer{DB: fence.DB, Schema: fence.Schema})
		})
	})
}
