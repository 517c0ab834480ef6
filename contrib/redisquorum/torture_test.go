package redisquorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/token"
)

const (
	// envTorture, if set, is how long the test runs: "10m".
	envTorture = "FENCEPOST_QUORUM_TORTURE"
	workers    = 5
	brief      = 150 * time.Millisecond // the ttl, which is also the longest
)

// span is a time during which a holder could rely on its lease.
type span struct {
	token.Token
	from, to time.Time
}

// hazard R14
func TestStressNodesThatForgetUnderLoad(t *testing.T) {
	t.Parallel()
	for n, lasts := range map[int]time.Duration{3: 4 * time.Second, 5: 4 * time.Second} {
		if text := os.Getenv(envTorture); text != "" {
			var err error
			lasts, err = time.ParseDuration(text)
			require.NoError(t, err)
		}
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			torture(t, n, lasts)
		})
	}
}

func torture(t *testing.T, n int, lasts time.Duration) {
	all := servers(t, n)
	medic, _ := all.founded(t, brief)
	all.ahead(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var at work
	for worker := range workers {
		iss, links := all.hasty(t, brief)
		for _, l := range links {
			delay := dawdle
			l.delay.Store(&delay)
		}
		at.Go(func() { at.keep(ctx, iss, worker) })
	}
	losses := 0
	for start := time.Now(); time.Since(start) < lasts || at.none() && time.Since(start) < testTimeout; losses++ {
		for name := range all { // in random order
			hurt(t, all, name)
			break
		}
		recovered(t, medic)
		time.Sleep(rand.N(brief))
	}
	stop()
	at.Wait()
	require.Empty(t, at.failed)
	require.NotEmpty(t, at.spans)
	at.judge(t)
	t.Logf("%d grants, %d losses of memory", len(at.spans), losses)
}

// hurt makes one node lose its memory, sometimes after it was disconnected for a while.
func hurt(t *testing.T, all nodes, name string) {
	switch rand.N(4) {
	case 0:
		all[name].Kill()
		time.Sleep(rand.N(2 * brief))
		all[name].Restart()
	case 1:
		all[name].Pause()
		time.Sleep(rand.N(2 * brief))
		all[name].Resume()
		fallthrough
	default:
		require.NoError(t, all[name].Client().FlushAll(t.Context()).Err())
	}
}

// dawdle is the latency of a network, and sometimes a pause that outlasts the ttl.
func dawdle() {
	switch d := rand.N(200); {
	case d == 0:
		time.Sleep(rand.N(2 * brief))
	case d < 60:
		time.Sleep(rand.N(10 * time.Millisecond))
	}
}

type work struct {
	sync.WaitGroup
	mu     sync.Mutex
	spans  []span
	failed []error
}

func (w *work) none() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spans) == 0
}

// keep acquires repeatedly until ctx ends.
func (w *work) keep(ctx context.Context, iss *redisquorum.Issuer, worker int) {
	for round := 0; ctx.Err() == nil; round++ {
		holder := fmt.Sprintf("%d:%d", worker, round)
		grant, err := iss.Acquire(ctx, resource, holder, brief-rand.N(brief/2))
		if err == nil {
			s := span{grant.Token, time.Now(), grant.Until}
			err = hold(ctx, iss, &s)
			w.mu.Lock()
			w.spans = append(w.spans, s)
			w.mu.Unlock()
		}
		if !expected(ctx, err) {
			w.mu.Lock()
			w.failed = append(w.failed, err)
			w.mu.Unlock()
		}
		time.Sleep(rand.N(10 * time.Millisecond))
	}
}

// hold renews a few times or never, and releases in time, too late or not at all.
func hold(ctx context.Context, iss *redisquorum.Issuer, s *span) error {
	for range rand.N(4) {
		time.Sleep(rand.N(brief / 2))
		if !time.Now().Before(s.to) {
			break
		}
		until, err := iss.Renew(ctx, s.Token, brief)
		if err != nil {
			break
		}
		s.to = until
	}
	time.Sleep(rand.N(brief / 2))
	if rand.N(8) == 0 {
		return nil
	}
	if now := time.Now(); now.Before(s.to) {
		s.to = now
	}
	return iss.Release(ctx, s.Token)
}

func expected(ctx context.Context, err error) bool {
	return err == nil || ctx.Err() != nil ||
		errors.Is(err, token.ErrHeld) || errors.Is(err, token.ErrLost) || errors.Is(err, redisquorum.ErrNoMajority)
}

func (w *work) judge(t *testing.T) {
	slices.SortFunc(w.spans, func(a, b span) int { return a.from.Compare(b.from) })
	w.spans = slices.DeleteFunc(w.spans, func(s span) bool { return !s.from.Before(s.to) })
	for i := 1; i < len(w.spans); i++ {
		before, after := w.spans[i-1], w.spans[i]
		require.Greater(t, after.Number, before.Number, "%s after %s", after.Holder, before.Holder)
		both := before.to.Sub(after.from)
		require.LessOrEqual(t, both, time.Duration(0), "%s and %s hold", before.Holder, after.Holder)
	}
}
