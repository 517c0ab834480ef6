package redisquorum_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redisquorum"
)

// Those who ask at once can each get a minority, again and again. Here they are
// told at once and none asks again by itself: one has to get it all the same.
func TestAVoteThatIsSplitIsDecided(t *testing.T) {
	t.Parallel()
	const askers = 3
	all := servers(t, 3)
	all.founded(t, time.Minute)
	var asks [askers]*redisquorum.Issuer
	for i := range asks {
		asks[i], _ = all.issuer(t, time.Minute)
		cycle(t, asks[i], "before")
	}
	for round := range 50 {
		var granted atomic.Int32
		var done sync.WaitGroup
		for i, iss := range asks {
			done.Go(func() {
				grant, err := iss.Acquire(t.Context(), fmt.Sprintf("split/%d", round), fmt.Sprintf("%d:%d", round, i), time.Minute)
				if err == nil && grant.Token.Check() == nil {
					granted.Add(1)
				}
			})
		}
		done.Wait()
		require.EqualValues(t, 1, granted.Load(), "round %d", round)
	}
}

// split leaves one node to each of three holders, whose programs have gone.
func TestASplitThatStaysIsRefused(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Minute)
	for name, node := range all {
		value := fmt.Sprintf("%019d %s", 1, "gone-"+name)
		require.NoError(t, node.Client().Set(t.Context(), lockKey, value, time.Minute).Err())
	}
	_, err := iss.Acquire(t.Context(), resource, "me", time.Minute)
	var refused *token.HeldError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Holder, "gone-")
	require.Positive(t, refused.Remaining)
	require.NoError(t, all["a"].Client().Del(t.Context(), lockKey).Err())
	require.NoError(t, all["b"].Client().Del(t.Context(), lockKey).Err())
	acquire(t, iss, "me", time.Minute)
}

// A node that hangs decides no vote, and whoever waits for it keeps his own node
// from the others: it is waited for once, and then no more until it has answered.
func TestAVoteIsNotHeldUpTwiceByANodeThatHangs(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, lines := all.founded(t, time.Minute)
	cycle(t, iss, "before")
	gone := fmt.Sprintf("%019d %s", 1, "gone")
	require.NoError(t, all["a"].Client().Set(t.Context(), lockKey, gone, time.Minute).Err())
	hang := make(chan struct{})
	defer close(hang)
	delay := func() { <-hang }
	lines["c"].delay.Store(&delay)
	var requests atomic.Int32
	count := func() { requests.Add(1) }
	lines["b"].delay.Store(&count)
	// Of votes that take half a second each there are two in the second for which
	// Acquire insists: each one asks b, and takes it back, which count hears twice.
	const two = 2 * 2 * 2
	require.Eventually(t, func() bool {
		before := requests.Load()
		_, err := iss.Acquire(t.Context(), resource, "me", time.Minute)
		return errors.Is(err, token.ErrHeld) && requests.Load()-before > two+2
	}, patience, pause)
}
