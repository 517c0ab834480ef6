package redisquorum_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that hangs holds a call up for a moment, not for its own timeout.
func TestAMinorityMayHang(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Minute)
	cycle(t, iss, "before")
	all["b"].Pause()
	defer all["b"].Resume()
	done := make(chan error, 1)
	go func() {
		grant, err := iss.Acquire(t.Context(), resource, "a", time.Minute)
		_, renewed := iss.Renew(t.Context(), grant.Token, time.Minute)
		done <- errors.Join(err, renewed, iss.Release(t.Context(), grant.Token))
	}()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(2500 * time.Millisecond): // the client's own is 3 s, for each of three calls
		t.Fatal("it waits for a node that hangs")
	}
}

// hazard R10
func TestAnEndedContextIsTheError(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, _ := all.founded(t, time.Minute)
	tok := acquire(t, iss, "a", time.Minute)
	calls := map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := iss.Acquire(ctx, resource, "b", time.Minute)
			return err
		},
		"renew":     func(ctx context.Context) error { _, err := iss.Renew(ctx, tok, time.Minute); return err },
		"release":   func(ctx context.Context) error { return iss.Release(ctx, tok) },
		"raise":     func(ctx context.Context) error { return iss.Raise(ctx, resource, tok.Number+1) },
		"recover":   func(ctx context.Context) error { return iss.Recover(ctx) },
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
	// The client looks at no context while it reads.
	for verb, call := range calls {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		start := time.Now()
		require.ErrorIs(t, call(ctx), cause, verb)
		require.Less(t, time.Since(start), 2*time.Second, "%s: the client's own timeout is 3 s", verb)
		cancel()
	}
}

// Else each call would leave a goroutine behind, for as long as the client waits.
func TestANodeThatHangsGathersNoMoreThanSoManyRequests(t *testing.T) {
	t.Parallel()
	all := servers(t, 3)
	iss, lines := all.founded(t, time.Minute)
	var waiting, most atomic.Int32
	hang, over := make(chan struct{}), sync.Once{}
	defer over.Do(func() { close(hang) })
	delay := func() {
		most.Store(max(most.Load(), waiting.Add(1)))
		<-hang
		waiting.Add(-1)
	}
	lines["b"].delay.Store(&delay)
	for range 200 {
		cycle(t, iss, "a")
	}
	require.Less(t, most.Load(), int32(100), "of 600 requests")
	over.Do(func() { close(hang) })
	require.Eventually(t, func() bool { return waiting.Load() == 0 && iss.Recover(t.Context()) == nil }, patience, pause)
}
