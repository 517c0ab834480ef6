package redisquorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redisquorum"
)

// hazard R6
func TestAnOlderBallotOfTheSameHolderMeetsNoNewerOne(t *testing.T) {
	t.Parallel()
	node := testenv.OwnRedis(t).Client()
	marker := "fencepost-quorum/1 ID 1000 volatile a,b,c a "
	require.NoError(t, node.Set(t.Context(), "q:quorum:member", marker+run(t, node), 0).Err())
	const lock = "q:quorum:lock:r"
	ask := func(ballot, ms int) []any {
		list, err := redisquorum.AcquireScript.Run(t.Context(), node,
			[]string{"q:quorum:member", "q:quorum:blank", lock, "q:quorum:counter:0"},
			marker, "", fmt.Sprintf("%019d", ballot), "me", ms).Slice()
		require.NoError(t, err)
		return list
	}
	withdraw := func(ballot int) {
		value := fmt.Sprintf("%019d me", ballot)
		require.NoError(t, redisquorum.WithdrawScript.Run(t.Context(), node, []string{lock}, value).Err())
	}
	require.Equal(t, "granted", ask(1, 60_000)[0])
	require.Equal(t, "granted", ask(2, 1000)[0], "its answer was lost: it asks again")
	require.Greater(t, node.PTTL(t.Context(), lock).Val(), 50*time.Second, "the first, which may have been heard, lasts")
	require.Equal(t, "held", ask(1, 120_000)[0], "the first, sent twice, comes late")
	require.Equal(t, "granted", ask(2, 1000)[0], "the second, sent twice")
	withdraw(1)
	require.EqualValues(t, 1, node.Exists(t.Context(), lock).Val(), "the second's lock stays")
	withdraw(2)
	require.Zero(t, node.Exists(t.Context(), lock).Val())
}

// hazard L1
func TestAGrantThatComesLateIsNone(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, lines := all.founded(t, time.Minute)
	cycle(t, iss, "before")
	for _, l := range lines {
		delay := func() { time.Sleep(15 * time.Millisecond) }
		l.delay.Store(&delay)
	}
	_, err := iss.Acquire(t.Context(), resource, "late", 20*time.Millisecond)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	var grant token.Grant
	require.Eventually(t, func() bool {
		grant, err = iss.Acquire(t.Context(), resource, "in time", time.Minute)
		return err == nil
	}, patience, pause)
	require.Greater(t, time.Until(grant.Until), 55*time.Second)
	require.Less(t, time.Until(grant.Until), time.Minute-time.Minute/100, "what clocks may drift apart is taken off")
}

func TestTTLsAreBounded(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Second)
	for _, ttl := range []time.Duration{-time.Second, 0, 10*time.Millisecond - 1, time.Second + 1} {
		_, err := iss.Acquire(t.Context(), resource, "a", ttl)
		require.ErrorContains(t, err, "is not between 10ms and the quorum's MaxTTL 1s")
		_, err = iss.Renew(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "a"}, ttl)
		require.ErrorContains(t, err, "is not between 10ms and the quorum's MaxTTL 1s")
	}
	acquire(t, iss, "a", time.Second)
}

// hazard R5
func TestTheLastNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Minute)
	for _, node := range all {
		require.NoError(t, node.Client().Set(t.Context(), counterKey(resource), token.MaxNumber-2, 0).Err())
	}
	require.EqualValues(t, token.MaxNumber-1, cycle(t, iss, "a").Number)
	require.EqualValues(t, token.MaxNumber, cycle(t, iss, "b").Number)
	_, err := iss.Acquire(t.Context(), resource, "c", time.Minute)
	require.ErrorIs(t, err, token.ErrExhausted)
	require.ErrorIs(t, iss.Raise(t.Context(), resource, token.MaxNumber+1), token.ErrInvalid)
	for _, node := range all {
		counter, err := node.Client().Get(t.Context(), counterKey(resource)).Int64()
		require.NoError(t, err)
		require.GreaterOrEqual(t, counter, int64(token.MaxNumber-2), "it may have been behind the others")
		require.LessOrEqual(t, counter, int64(token.MaxNumber))
		require.Eventually(t, func() bool { return node.Client().Exists(t.Context(), lockKey).Val() == 0 }, patience, pause)
	}
}

func TestANodeWithABrokenCounterIsPassedOver(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Minute)
	require.NoError(t, all["a"].Client().Set(t.Context(), counterKey(resource), "nan", 0).Err())
	require.NoError(t, all["b"].Client().Set(t.Context(), counterKey(resource), "", 0).Err())
	_, err := iss.Acquire(t.Context(), resource, "b", time.Minute)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	require.ErrorContains(t, err, "counter that is no number")
	require.NoError(t, all["b"].Client().Set(t.Context(), counterKey(resource), 7, 0).Err())
	require.Eventually(t, func() bool {
		grant, err := iss.Acquire(t.Context(), resource, "c", time.Minute)
		return err == nil && iss.Release(t.Context(), grant.Token) == nil
	}, patience, pause)
}
