package testenv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestTheKeysOfATestAreRemovedAndOthersStay(t *testing.T) {
	t.Parallel()
	client, mine := testenv.Redis(t)
	kept := mine + ":kept"
	require.NoError(t, client.Set(t.Context(), kept, 1, 0).Err())
	var keys []string
	t.Run("another test, which closes its client", func(t *testing.T) {
		own, prefix := testenv.Redis(t)
		require.NotEqual(t, mine, prefix)
		keys = []string{prefix, prefix + ":{7}:lock", "{" + prefix + "}:counter"}
		for _, key := range keys {
			require.NoError(t, own.Set(t.Context(), key, 1, 0).Err())
		}
		require.NoError(t, own.Close())
	})
	left, err := client.Exists(t.Context(), keys...).Result()
	require.NoError(t, err)
	require.Zero(t, left, "keys outlived their test")
	left, err = client.Exists(t.Context(), kept).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, left)
}
