package redisquorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redisquorum"
)

func TestAMinorityMayBeDown(t *testing.T) {
	t.Parallel()
	for n, down := range map[int][]string{3: {"b"}, 4: {"b"}, 5: {"b", "d"}} {
		t.Run(fmt.Sprintf("%d of %d", len(down), n), func(t *testing.T) {
			t.Parallel()
			all := servers(t, n)
			iss, _ := all.founded(t, time.Minute)
			first := acquire(t, iss, "first", time.Minute)
			for _, name := range down {
				all[name].Kill()
			}
			_, err := iss.Renew(t.Context(), first, time.Minute)
			require.NoError(t, err)
			_, err = iss.Acquire(t.Context(), resource, "second", time.Minute)
			require.ErrorIs(t, err, token.ErrHeld)
			require.NoError(t, iss.Release(t.Context(), first))
			second := acquire(t, iss, "second", time.Minute)
			require.Greater(t, second.Number, first.Number)

			all["a"].Kill()
			_, err = iss.Acquire(t.Context(), resource, "third", time.Minute)
			require.ErrorIs(t, err, redisquorum.ErrNoMajority)
			_, err = iss.Renew(t.Context(), second, time.Minute)
			require.ErrorIs(t, err, redisquorum.ErrNoMajority)
			require.NotErrorIs(t, err, token.ErrLost, "it may be held still")
			require.ErrorIs(t, iss.Release(t.Context(), second), redisquorum.ErrNoMajority)
			require.ErrorIs(t, iss.Raise(t.Context(), resource, second.Number+1), redisquorum.ErrNoMajority)
		})
	}
}

func TestWhatAMinorityGrantsIsGivenBack(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, lines := all.founded(t, time.Hour)
	other, others := all.issuer(t, time.Hour)
	lines["c"].cut.Store(true)
	held := acquire(t, iss, "a", time.Hour) // on a and b
	_, err := other.Acquire(t.Context(), resource, "b", time.Hour)
	var refused *token.HeldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "a", refused.Holder)
	free := func(node string) func() bool {
		return func() bool { return all[node].Client().Exists(t.Context(), lockKey).Val() == 0 }
	}
	require.Eventually(t, free("c"), patience, pause)

	require.NoError(t, iss.Release(t.Context(), held))
	others["a"].cut.Store(true)
	others["b"].cut.Store(true)
	_, err = other.Acquire(t.Context(), resource, "b", time.Hour)
	require.Error(t, err)
	require.Eventually(t, free("c"), patience, pause)
}

func TestANumberThatOneNodeAloneKnowsIsNotLost(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, lines := all.founded(t, time.Minute)
	ahead := time.Now().UnixMicro()/10 + 360_000_000
	require.NoError(t, all["b"].Client().Set(t.Context(), counterKey(resource), ahead, 0).Err())
	lines["a"].cut.Store(true)
	require.Equal(t, ahead+1, cycle(t, iss, "a").Number)
	lines["a"].cut.Store(false)
	lines["b"].cut.Store(true)
	require.Equal(t, ahead+2, cycle(t, iss, "b").Number, "it was written to a majority")
}
