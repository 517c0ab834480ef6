package wire_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/internal/testenv"
)

func TestCommandsAndPacketsAreCounted(t *testing.T) {
	t.Parallel()
	_, prefix := testenv.Redis(t)
	var sent wire.Counter
	client, err := sent.Redis(testenv.RedisURL(t))
	require.NoError(t, err)
	defer client.Close()
	three := func() error {
		_, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Ping(t.Context())
			p.Set(t.Context(), prefix, "*1\r\n$4\r\nPING\r\n", 0)
			p.Ping(t.Context())
			return nil
		})
		return err
	}
	// A new connection sends commands of its own; pipelines may have one apart.
	require.NoError(t, client.Ping(t.Context()).Err())
	require.NoError(t, three())
	large := strings.Repeat("*3\r\n$4\r\n", 100_000) // what looks like commands, and takes many packets
	for name, c := range map[string]struct {
		do                func() error
		packets, commands int64
	}{
		"one command":     {func() error { return client.Get(t.Context(), prefix).Err() }, 1, 1},
		"an empty string": {func() error { return client.Set(t.Context(), prefix, "", 0).Err() }, 1, 1},
		"a script, whose calls are none": {func() error {
			return client.Eval(t.Context(), "redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) return 1", []string{prefix}).Err()
		}, 1, 1},
		"three at once":     {three, 1, 3},
		"one that is large": {func() error { return client.Set(t.Context(), prefix, large, 0).Err() }, 0, 1},
	} {
		packets, commands := sent.Packets(), sent.Commands()
		if err := c.do(); err != redis.Nil {
			require.NoError(t, err, name)
		}
		require.Equal(t, c.commands, sent.Commands()-commands, name)
		if c.packets > 0 {
			require.Equal(t, c.packets, sent.Packets()-packets, name)
		}
	}
}
