package testenv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestAClusterElectsAReplicaOfADeadMaster(t *testing.T) {
	t.Parallel()
	c := testenv.RedisCluster(t, 3, 1)
	require.Len(t, c.Nodes(), 6)
	for _, key := range []string{"a", "b", "c", "d"} {
		require.NoError(t, c.Client().Set(t.Context(), key, 1, 0).Err())
	}
	master := c.Master("a")
	require.Contains(t, c.Nodes()[:3], master)

	dead := c.Failover("a")

	require.Same(t, master, dead)
	require.NotSame(t, dead, c.Master("a"))
	c.Client().ReloadState(t.Context())
	require.Eventually(t, func() bool { return c.Client().Set(t.Context(), "a", 2, 0).Err() == nil }, patience, pause)
	dead.Restart()
	require.Eventually(t, func() bool {
		return c.Master("a") != dead && c.Client().Set(t.Context(), "a", 3, 0).Err() == nil
	}, patience, pause, "it comes back as a replica")
}
