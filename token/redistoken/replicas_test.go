package redistoken_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R11
func TestAGrantThatTooFewReplicasHaveIsGivenBack(t *testing.T) {
	t.Parallel()
	master, replica := testenv.OwnRedis(t), testenv.OwnRedis(t)
	replica.ReplicaOf(master)
	iss := closing(t, &redistoken.Issuer{Client: master.Client(), Replicas: 1})
	naive := &redistoken.Issuer{Client: master.Client()}
	first := acquire(t, iss, "first")
	lock := lockKey("fencepost", resource)
	require.Equal(t, "first", replica.Client().Get(t.Context(), lock).Val(), "the replica has it")
	require.NoError(t, iss.Release(t.Context(), first))

	replica.Pause()
	_, err := iss.Acquire(t.Context(), resource, "second", time.Second)
	require.ErrorIs(t, err, redistoken.ErrReplicas)
	require.ErrorContains(t, err, "0 of 1")
	require.NotErrorIs(t, err, token.ErrHeld)
	require.Zero(t, master.Client().Exists(t.Context(), lockKey("fencepost", resource)).Val(), "it was given back")
	deceived := acquire(t, naive, "naive") // granted, though the only copy is here

	t.Run("one that is handed over too", func(t *testing.T) {
		got := waits(t.Context(), t, iss, master.Client(), "third", time.Second)
		require.NoError(t, naive.Release(t.Context(), deceived))
		require.ErrorIs(t, (<-got).err, redistoken.ErrReplicas)
		require.Zero(t, master.Client().Exists(t.Context(), lockKey("fencepost", resource)).Val(), "it was given back")
	})
	replica.Resume()
	require.Greater(t, cycle(t, iss, "fourth").Number, deceived.Number)
}

// hazard R11
func TestWaitIsNoConsensus(t *testing.T) {
	t.Parallel()
	master, near, far := testenv.OwnRedis(t), testenv.OwnRedis(t), testenv.OwnRedis(t)
	near.ReplicaOf(master)
	far.ReplicaOf(master)
	iss := &redistoken.Issuer{Client: master.Client(), Replicas: 1}
	cycle(t, iss, "earlier")
	far.CutOff()
	before := acquire(t, iss, "before") // near has it
	far.Promote()                       // but it is far that follows
	after := acquire(t, &redistoken.Issuer{Client: far.Client()}, "after")
	require.Greater(t, after.Number, before.Number, "the clock is ahead of what was lost")

	// Two hold the resource by now. What keeps their writes in order is a guard.
	var store guard.Memory
	require.NoError(t, store.Admit(t.Context(), before))
	require.NoError(t, store.Admit(t.Context(), after))
	require.ErrorIs(t, store.Admit(t.Context(), before), guard.ErrStale)
}

func TestReplicasMustNotBeNegative(t *testing.T) {
	t.Parallel()
	_, err := (&redistoken.Issuer{Client: embedded(t), Replicas: -1}).Acquire(t.Context(), resource, "a", long)
	require.ErrorContains(t, err, "negative number of Replicas: -1")
}
