package redisguard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// elsewhere is a row that outlives every Redis. It is written after the mark was
// compared: check-then-act, also if the mark is lost.
type elsewhere struct{ row string }

func (w *elsewhere) write(ctx context.Context, store guard.Store, number int64, holder string) error {
	if err := store.Admit(ctx, tok(number, holder)); err != nil {
		return err
	}
	w.row = holder
	return nil
}

// A mark fences only data that is lost together with it.
//
// hazard G10
func TestAMarkThatIsLessDurableIsNoFence(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(*server, *env){
		"a restart without persistence": func(s *server, _ *env) { s.Restart() },
		"a flush":                       func(_ *server, e *env) { require.NoError(e, e.client.FlushAll(e.Context()).Err()) },
		"an eviction": func(_ *server, e *env) {
			e.set("maxmemory-policy", "allkeys-random")
			e.set("maxmemory", "1")
			_ = e.client.Set(e.Context(), "another", "key", 0).Err() // refused, when nothing is left to evict
			e.set("maxmemory", "0")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			e := s.env()
			var account elsewhere
			require.NoError(t, account.write(t.Context(), e.guard, 34, "b"))
			require.ErrorIs(t, account.write(t.Context(), e.guard, 33, "a"), guard.ErrStale)
			_, err := e.guard.Eval(with(t.Context(), 34, "b"), resource, ledger, []string{e.key}, "b")
			require.NoError(t, err)

			forget(s, e)

			require.Empty(t, e.mark(), "this test must lose the mark")
			require.NoError(t, account.write(t.Context(), e.guard, 33, "a"))
			require.Equal(t, "a", account.row, "the row elsewhere must be overwritten by the stale token")
			require.Empty(t, e.list(), "the data beside the mark is lost with it")
		})
	}
	t.Run("with persistence both are restored", func(t *testing.T) {
		t.Parallel()
		s := serve(t, "--appendonly", "yes", "--appendfsync", "always")
		e := s.env()
		_, err := e.guard.Eval(with(t.Context(), 34, "b"), resource, ledger, []string{e.key}, "b")
		require.NoError(t, err)
		s.Restart()
		_, err = e.guard.Eval(with(t.Context(), 33, "a"), resource, ledger, []string{e.key}, "a")
		require.ErrorIs(t, err, guard.ErrStale)
		require.Equal(t, []string{"b"}, e.list())
	})
}

// Eviction removes single keys: a policy that evicts keys without an expiry also unfences
// data beside the mark.
//
// hazard G10
func TestWhichKeysAnEvictionTakes(t *testing.T) {
	t.Parallel()
	for policy, kept := range map[string]bool{"noeviction": true, "volatile-lru": true, "volatile-random": true, "allkeys-random": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			e := serve(t, "--maxmemory-policy", policy).env()
			require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
			for i := range 20 {
				require.NoError(t, e.client.Set(t.Context(), fmt.Sprint("cache:", i), strings.Repeat("x", 1000), ceiling).Err())
			}
			e.set("maxmemory", "1")
			_ = e.client.Set(t.Context(), "another", "key", 0).Err()
			e.set("maxmemory", "0")
			require.Equal(t, kept, e.mark() == "34 b")
		})
	}
}

// hazard G1
func TestAdmitAndThenWriteIsNoFenceEither(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	// a is paused here.
	require.NoError(t, e.guard.Set(with(t.Context(), 34, "b"), resource, e.key, "b", 0))
	require.NoError(t, e.client.Set(t.Context(), e.key, "a", 0).Err())
	require.Equal(t, "a", e.written(), "the stale write must land")

	require.NoError(t, e.guard.Set(with(t.Context(), 34, "b"), resource, e.key, "b", 0))
	require.ErrorIs(t, e.guard.Set(with(t.Context(), 33, "a"), resource, e.key, "a", 0), guard.ErrStale)
	require.Equal(t, "b", e.written())
}
