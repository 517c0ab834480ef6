package lock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// diary records the calls of the hooks, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) hooks() lock.Hooks {
	return lock.Hooks{
		Acquired: func(_ context.Context, _ token.Token, waited time.Duration) {
			d.note("acquired after " + waited.String())
		},
		NotAcquired: func(_ context.Context, r string, _ time.Duration, _ error) { d.note("not acquired " + r) },
		Renewed:     func(_ context.Context, _ token.Token, left time.Duration) { d.note("renewed for " + left.String()) },
		RenewFailed: func(context.Context, token.Token, time.Duration, error) { d.note("renewal failed") },
		Lost: func(_ context.Context, _ token.Token, held time.Duration, _ error) {
			d.note("lost after " + held.String())
		},
		Released: func(_ context.Context, _ token.Token, held time.Duration, _ error) {
			d.note("released after " + held.String())
		},
	}
}

func TestHooksReportALeasesLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		locker := lock.Locker{Issuer: &w, TTL: ttl, Hooks: d.hooks(), DangerouslyWithoutClaim: true}
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			require.ErrorIs(t, (&lock.Locker{Issuer: struct{ token.Issuer }{&w}, Hooks: d.hooks(), NoWait: true, DangerouslyWithoutClaim: true}).
				Hold(t.Context(), account, nothing), token.ErrHeld)
			require.NoError(t, locker.Hold(ctx, account, nothing), "a nested Hold calls no hooks")
			time.Sleep(ttl / 2)
			return nil
		}))
		require.Equal(t, []string{"acquired after 0s", "not acquired account/42", "renewed for 900ms", "released after 500ms"}, d.lines)
	})
}

// The slots are tried in random order. A metric that is labelled by the resource gets
// one label for them all the same.
func TestHooksGetOneTextForOneSetOfSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		all := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true})
		require.NoError(t, all.HoldAll(t.Context(), slots, func(context.Context) error {
			for range 20 {
				one := lock.Locker{Issuer: struct{ token.Issuer }{&w}, TTL: ttl, Hooks: d.hooks(), NoWait: true, DangerouslyWithoutClaim: true}
				require.ErrorIs(t, one.HoldAny(t.Context(), slots, func(context.Context, string) error { return nil }), token.ErrHeld)
			}
			return nil
		}))
		require.Equal(t, slices.Repeat([]string{"not acquired pool/1,pool/2,pool/3"}, 20), d.lines)
	})
}

// RenewFailed is called before the loss, and Lost is called once.
func TestRenewFailedComesBeforeLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		held, err := (&lock.Locker{Issuer: &w, TTL: ttl, Hooks: d.hooks(), DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		w.renew.set(fails)
		<-held.Context().Done()
		synctest.Wait()
		_ = held.Release(t.Context()) // its error does not matter here
		require.Equal(t, "acquired after 0s", d.lines[0])
		require.Equal(t, "renewal failed", d.lines[1])
		require.Equal(t, "renewal failed", d.lines[len(d.lines)-3])
		require.Equal(t, "lost after 900ms", d.lines[len(d.lines)-2])
		require.Equal(t, "released after 900ms", d.lines[len(d.lines)-1])
	})
}

func TestWhatEndsWithItsContextIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		held, err := (&lock.Locker{Issuer: &w, TTL: ttl, Hooks: d.hooks(), DangerouslyWithoutClaim: true}).Acquire(ctx, account)
		require.NoError(t, err)
		w.back = ttl / 10
		require.NoError(t, w.far.Release(ctx, held.Token()))
		for w.renew.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel() // and the renewal's ErrLost arrives later
		time.Sleep(10 * ttl)
		require.Equal(t, []string{"acquired after 0s"}, d.lines)
		_ = held.Release(t.Context()) // its lease has expired
	})
}
