package simulations_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gone waits until the server has done all that A has sent it, and has seen it
// leave.
func (b *bank) gone(t *testing.T) {
	t.Helper()
	b.awaitNone(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1")
}

// settled waits until the server has done all that A has sent it, and has no
// transaction of A's open.
func (b *bank) settled(t *testing.T) {
	t.Helper()
	b.awaitNone(t, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state IS DISTINCT FROM 'idle'")
}

func (b *bank) awaitNone(t *testing.T, counts string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var sessions int
		err := b.server.QueryRow(t.Context(), counts, b.session).Scan(&sessions)
		return err == nil && sessions == 0
	}, patience, 5*time.Millisecond)
}
