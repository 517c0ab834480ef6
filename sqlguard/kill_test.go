package sqlguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

// kills is how often the server is killed in the middle of guarded writes.
const kills = 20

func TestKilledServer(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	t.Run("keeps every acknowledged write and mark", func(t *testing.T) {
		k := newKilled(t, spare, "kept", "on")
		for range kills {
			k.round()
		}
		require.Zero(t, k.lost, "acknowledged writes that are gone")
		require.Zero(t, k.fallen, "marks below an acknowledged one")
		require.Zero(t, k.ghosts, "writes that are there although nothing was applied")
		require.Positive(t, k.unknown, "no round met a write on its way")
		t.Logf("%d acknowledged, %d unknown", k.acknowledged, k.unknown)
	})
	// hazard G26
	t.Run("with asynchronous commits, loses writes but no claimed mark", func(t *testing.T) {
		k := newKilled(t, spare, "lost", "off")
		for range 3 {
			k.round()
		}
		require.Positive(t, k.lost, "the twin must lose writes, or the rounds prove nothing")
		require.Zero(t, k.fallen)
		require.Zero(t, k.ghosts)
	})
	t.Run("loses a mark that was raised by a plain, asynchronous commit", func(t *testing.T) {
		k := newKilled(t, spare, "fallen", "off")
		k.claim = func(ctx context.Context, tok token.Token) error {
			_, err := k.pool.Exec(ctx, "SELECT fallen.admit($1, $2, $3)", tok.Resource, tok.Number, tok.Holder)
			return err
		}
		for range 3 {
			k.round()
		}
		require.Positive(t, k.fallen, "the twin must lose a mark")
	})
}
