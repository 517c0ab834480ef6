package redisquorum_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/tokentest"
)

func TestIssuerOnThreeNodes(t *testing.T) { t.Parallel(); conform(t, 3) }

func TestStressIssuerOnFiveNodes(t *testing.T) { t.Parallel(); conform(t, 5) }

func conform(t *testing.T, n int) {
	t.Helper()
	all := servers(t, n)
	all.founded(t, 24*time.Hour)
	tokentest.TestIssuer(t, func(t *testing.T) token.Issuer {
		iss, _ := all.issuer(t, 24*time.Hour)
		return iss
	})
}

func TestAMinorityMayBeDown(t *testing.T) {
	t.Parallel()
	for n, down := range map[int][]string{3: {"b"}, 4: {"b"}, 5: {"b", "d"}} {
		t.Run(fmt.Sprintf("%d of %d", len(down), n), func(t *testing.T) {
			t.Parallel()
			all := servers(t, n)
			iss, _ := all.founded(t, time.Hour)
			first := acquire(t, iss, "first", time.Hour)
			for _, name := range down {
				all[name].Kill()
			}
			_, err := iss.Renew(t.Context(), first, time.Hour)
			require.NoError(t, err)
			_, err = iss.Acquire(t.Context(), resource, "second", time.Hour)
			require.ErrorIs(t, err, token.ErrHeld)
			require.NoError(t, iss.Release(t.Context(), first))
			second := acquire(t, iss, "second", time.Hour)
			require.Greater(t, second.Number, first.Number)

			all["a"].Kill()
			_, err = iss.Acquire(t.Context(), resource, "third", time.Hour)
			require.ErrorIs(t, err, redisquorum.ErrNoMajority)
			_, err = iss.Renew(t.Context(), second, time.Hour)
			require.ErrorIs(t, err, redisquorum.ErrNoMajority)
			require.NotErrorIs(t, err, token.ErrLost, "it may still be held")
			require.ErrorIs(t, iss.Release(t.Context(), second), redisquorum.ErrNoMajority)
			require.ErrorIs(t, iss.Recover(t.Context(), resource, second.Number+1), redisquorum.ErrNoMajority)
		})
	}
}

func TestWhatAMinorityGrantsIsGivenBack(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, links := all.founded(t, time.Hour)
	other, others := all.issuer(t, time.Hour)
	links["c"].cut.Store(true)
	held := acquire(t, iss, "a", time.Hour) // on a and b
	_, err := other.Acquire(t.Context(), resource, "b", time.Hour)
	var refused *token.HeldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "a", refused.Holder)
	free := func(node string) func() bool {
		return func() bool { return all[node].Client().Exists(t.Context(), lockKey).Val() == 0 }
	}
	require.Eventually(t, free("c"), testTimeout, pause)

	require.NoError(t, iss.Release(t.Context(), held))
	others["a"].cut.Store(true)
	others["b"].cut.Store(true)
	_, err = other.Acquire(t.Context(), resource, "b", time.Hour)
	require.Error(t, err)
	require.Eventually(t, free("c"), testTimeout, pause)
}

func TestANumberThatOneNodeAloneKnowsIsNotLost(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, links := all.founded(t, time.Hour)
	ahead := time.Now().UnixMicro()/10 + 360_000_000
	require.NoError(t, all["b"].Client().Set(t.Context(), counterKey(resource), ahead, 0).Err())
	links["a"].cut.Store(true)
	require.Equal(t, ahead+1, cycle(t, iss, "a").Number)
	links["a"].cut.Store(false)
	links["b"].cut.Store(true)
	require.Equal(t, ahead+2, cycle(t, iss, "b").Number, "it was written to a majority")
}

// hazard R6
func TestAnOlderAttemptOfTheSameHolderChangesNoNewerOne(t *testing.T) {
	t.Parallel()
	node := testenv.OwnRedis(t).Client()
	marker := "fencepost-quorum/1 ID 1000 volatile a,b,c a "
	require.NoError(t, node.Set(t.Context(), "q:quorum:member", marker+run(t, node), 0).Err())
	const lock = "q:quorum:lock:r"
	ask := func(attempt, ms int) []any {
		list, err := redisquorum.AcquireScript.Run(t.Context(), node,
			[]string{"q:quorum:member", "q:quorum:unrecovered", lock, "q:quorum:counter:0"},
			marker, "", fmt.Sprintf("%019d", attempt), "me", ms).Slice()
		require.NoError(t, err)
		return list
	}
	withdraw := func(attempt int) {
		value := fmt.Sprintf("%019d me", attempt)
		require.NoError(t, redisquorum.WithdrawScript.Run(t.Context(), node, []string{lock}, value).Err())
	}
	require.Equal(t, "granted", ask(1, 3_600_000)[0])
	require.Equal(t, "granted", ask(2, 1000)[0], "its answer was lost: it asks again")
	require.Greater(t, node.PTTL(t.Context(), lock).Val(), 50*time.Minute, "the first lease, whose reply may have arrived, lasts")
	require.Equal(t, "held", ask(1, 7_200_000)[0], "the first, sent twice, comes late")
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
	iss, links := all.founded(t, time.Hour)
	cycle(t, iss, "before")
	for _, l := range links {
		delay := func() { time.Sleep(15 * time.Millisecond) }
		l.delay.Store(&delay)
	}
	var err error
	require.Eventually(t, func() bool { // an attempt may be refused because of the previous one's lock
		_, err = iss.Acquire(t.Context(), resource, "late", 20*time.Millisecond)
		return !errors.Is(err, token.ErrHeld)
	}, testTimeout, pause)
	require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	var grant token.Grant
	require.Eventually(t, func() bool {
		grant, err = iss.Acquire(t.Context(), resource, "in time", time.Hour)
		return err == nil
	}, testTimeout, pause)
	require.Greater(t, time.Until(grant.Until), 50*time.Minute, "the ttl, less what only a hang takes")
	require.Less(t, time.Until(grant.Until), time.Hour-time.Hour/100, "what clocks may drift apart is taken off")
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
	iss, _ := all.founded(t, time.Hour)
	for _, node := range all {
		require.NoError(t, node.Client().Set(t.Context(), counterKey(resource), token.MaxNumber-2, 0).Err())
	}
	require.EqualValues(t, token.MaxNumber-1, cycle(t, iss, "a").Number)
	require.EqualValues(t, token.MaxNumber, cycle(t, iss, "b").Number)
	_, err := iss.Acquire(t.Context(), resource, "c", time.Hour)
	require.ErrorIs(t, err, token.ErrExhausted)
	require.ErrorIs(t, iss.Recover(t.Context(), resource, token.MaxNumber+1), token.ErrInvalid)
	for _, node := range all {
		counter, err := node.Client().Get(t.Context(), counterKey(resource)).Int64()
		require.NoError(t, err)
		require.GreaterOrEqual(t, counter, int64(token.MaxNumber-2), "it may have been behind the others")
		require.LessOrEqual(t, counter, int64(token.MaxNumber))
		require.Eventually(t, func() bool { return node.Client().Exists(t.Context(), lockKey).Val() == 0 }, testTimeout, pause)
	}
}

// Callers that acquire at once can each get a minority, repeatedly. Here they start at
// once and repeat no call by themselves: one of them must still get the lock.
func TestAVoteThatIsSplitIsDecided(t *testing.T) {
	t.Parallel()
	const askers = 3
	all := servers(t, 3)
	all.founded(t, time.Hour)
	var asks [askers]*redisquorum.Issuer
	for i := range asks {
		asks[i], _ = all.issuer(t, time.Hour)
		asks[i].RetryFor(testTimeout) // in a second a busy machine may not start a second attempt
		cycle(t, asks[i], "before")
	}
	for round := range 50 {
		var granted atomic.Int32
		var done sync.WaitGroup
		for i, iss := range asks {
			done.Go(func() {
				grant, err := iss.Acquire(t.Context(), fmt.Sprintf("split/%d", round), fmt.Sprintf("%d:%d", round, i), time.Hour)
				if err == nil && grant.Token.Validate() == nil {
					granted.Add(1)
				}
			})
		}
		done.Wait()
		require.EqualValues(t, 1, granted.Load(), "round %d", round)
	}
}

// split leaves one node to each of three holders, whose programs have ended.
func TestASplitThatStaysIsRefused(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Hour)
	for name, node := range all {
		value := fmt.Sprintf("%019d %s", 1, "gone-"+name)
		require.NoError(t, node.Client().Set(t.Context(), lockKey, value, time.Hour).Err())
	}
	_, err := iss.Acquire(t.Context(), resource, "me", time.Hour)
	var refused *token.HeldError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Holder, "gone-")
	require.Positive(t, refused.Remaining)
	require.NoError(t, all["a"].Client().Del(t.Context(), lockKey).Err())
	require.NoError(t, all["b"].Client().Del(t.Context(), lockKey).Err())
	acquire(t, iss, "me", time.Hour)
}

// A node that hangs decides no vote, and a caller that waits for it keeps its own nodes
// from the other callers. So a caller waits for the node once, and not again until the
// node has replied.
func TestAVoteIsNotHeldUpTwiceByANodeThatHangs(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	all.founded(t, time.Hour)
	iss, links := all.hasty(t, time.Hour)
	cycle(t, iss, "before")
	gone := fmt.Sprintf("%019d %s", 1, "gone")
	require.NoError(t, all["a"].Client().Set(t.Context(), lockKey, gone, time.Hour).Err())
	hang := make(chan struct{})
	defer close(hang)
	delay := func() { <-hang }
	links["c"].delay.Store(&delay)
	var requests atomic.Int32
	count := func() { requests.Add(1) }
	links["b"].delay.Store(&count)
	// Two votes that take half a second each fit into the second for which Acquire
	// retries. Each attempt locks at b and withdraws, so count sees it twice.
	const two = 2 * 2 * 2
	require.Eventually(t, func() bool {
		before := requests.Load()
		_, err := iss.Acquire(t.Context(), resource, "me", time.Hour)
		return errors.Is(err, token.ErrHeld) && requests.Load()-before > two+2
	}, testTimeout, pause)
}
