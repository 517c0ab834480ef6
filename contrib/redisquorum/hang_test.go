package redisquorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/token"
)

// A node that hangs delays a call for a moment, not until its own timeout.
func TestAMinorityMayHang(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	all.founded(t, time.Hour)
	iss, _ := all.hasty(t, time.Hour)
	cycle(t, iss, "before")
	all["b"].Pause()
	defer all["b"].Resume()
	done := make(chan error, 1)
	go func() {
		grant, err := iss.Acquire(t.Context(), resource, "a", time.Hour)
		_, renewed := iss.Renew(t.Context(), grant.Token, time.Hour)
		done <- errors.Join(err, renewed, iss.Release(t.Context(), grant.Token))
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(testTimeout): // the client's own timeout is an hour
		t.Fatal("the call waits for a node that hangs")
	}
}

// A node that fails and one that has lost the lock decide the second round together: no
// majority can store the number, and the call need not wait for a node that hangs.
func TestASecondRoundThatIsLostDoesNotWait(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Hour)
	iss.RetryFor(0)
	cycle(t, iss, "before")
	hang := make(chan struct{})
	defer close(hang)
	for name, second := range map[string]secondRound{
		"a": func() error { return all["a"].Client().Del(t.Context(), lockKey).Err() },
		"b": func() error { return errCut },
		"c": func() error { <-hang; return errCut },
	} {
		iss.Nodes[name].AddHook(second)
	}
	done := make(chan error, 1)
	go func() {
		_, err := iss.Acquire(t.Context(), resource, "a", time.Hour)
		done <- err
	}()
	select {
	case err := <-done:
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.ErrorIs(t, err, redisquorum.ErrNoMajority)
	case <-time.After(testTimeout / 4):
		t.Fatal("the call waits for a node that hangs")
	}
}

// secondRound runs before the second round of an acquisition. Its error is the node's.
type secondRound func() error

func (secondRound) DialHook(next redis.DialHook) redis.DialHook { return next }

func (secondRound) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (before secondRound) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if slices.Contains(cmd.Args(), any(redisquorum.WriteScript.Hash())) {
			if err := before(); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		return next(ctx, cmd)
	}
}

// hazard R10
func TestAnEndedContextIsTheError(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Hour)
	tok := acquire(t, iss, "a", time.Hour)
	calls := map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := iss.Acquire(ctx, resource, "b", time.Minute)
			return err
		},
		"renew":     func(ctx context.Context) error { _, err := iss.Renew(ctx, tok, time.Minute); return err },
		"release":   func(ctx context.Context) error { return iss.Release(ctx, tok) },
		"recover":   func(ctx context.Context) error { return iss.Recover(ctx, resource, tok.Number+1) },
		"rejoin":    func(ctx context.Context) error { return iss.Rejoin(ctx) },
		"bootstrap": func(ctx context.Context) error { return iss.Bootstrap(ctx) },
	}
	cause := errors.New("the caller has gone")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for verb, call := range calls {
		require.ErrorIs(t, call(ended), cause, verb)
	}
	for _, name := range []string{"a", "b"} {
		all[name].Pause()
		defer all[name].Resume()
	}
	// The client does not check a context while it reads.
	for verb, call := range calls {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		require.ErrorIs(t, call(ctx), cause, verb) // the client's own timeout is an hour
		cancel()
	}
}

// Without the bound, each call would leave a goroutine for as long as the client waits.
func TestANodeThatHangsGathersNoMoreThanSoManyRequests(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	all.founded(t, time.Hour)
	iss, links := all.hasty(t, time.Hour)
	cycle(t, iss, "before")
	var waiting atomic.Int32
	hang, over := make(chan struct{}), sync.Once{}
	defer over.Do(func() { close(hang) })
	delay := func() {
		waiting.Add(1)
		<-hang
		waiting.Add(-1)
	}
	links["b"].delay.Store(&delay)
	// If the machine delays another node too, an attempt may fail, or a lock be lost.
	unless := []error{nil, token.ErrHeld, token.ErrLost, redisquorum.ErrNoMajority}
	for i := range 200 {
		grant, err := iss.Acquire(t.Context(), resource, fmt.Sprint(i), time.Hour)
		if err == nil {
			err = iss.Release(t.Context(), grant.Token)
		}
		require.True(t, slices.ContainsFunc(unless, func(one error) bool { return errors.Is(err, one) }), "%v", err)
	}
	require.Eventually(t, func() bool { return waiting.Load() > 0 }, testTimeout, pause)
	require.Less(t, waiting.Load(), int32(100), "of 600 requests")
	for _, node := range []string{"a", "c"} {
		value := fmt.Sprintf("%019d %s", 1, "another")
		require.NoError(t, all[node].Client().Set(t.Context(), lockKey, value, time.Hour).Err())
	}
	for range 200 {
		_, err := iss.Acquire(t.Context(), resource, "refused", time.Hour)
		require.ErrorIs(t, err, token.ErrHeld)
	}
	require.Less(t, waiting.Load(), int32(100), "a refused attempt withdraws nothing from a node to which it sent nothing")
	over.Do(func() { close(hang) })
	require.Eventually(t, func() bool { return waiting.Load() == 0 && iss.Rejoin(t.Context()) == nil }, testTimeout, pause)
}
