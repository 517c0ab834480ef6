package lockscript_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockscript"
)

const text = "return 'a lock'"

var hash = lockscript.Add(text)

func TestAListedScriptIsRecognized(t *testing.T) {
	t.Parallel()
	require.Equal(t, redis.NewScript(text).Hash(), hash)
	require.True(t, lockscript.Runs([]any{"evalsha", hash, 0}))
	require.True(t, lockscript.Runs([]any{"eval", text, 0}))
	for _, args := range [][]any{nil, {"ping"}, {"eval", "return 1", 0}, {"set", 1, 2}} {
		require.False(t, lockscript.Runs(args), "%v", args)
	}
}
