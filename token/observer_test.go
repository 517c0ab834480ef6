package token_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

// diary is what an observer was told, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) observer() token.Observer {
	return token.Observer{
		Acquired: func(_ context.Context, _ token.Token, waited time.Duration) {
			d.note("acquired after " + waited.String())
		},
		GaveUp:     func(_ context.Context, r string, _ time.Duration, _ error) { d.note("gave up " + r) },
		Renewed:    func(_ context.Context, _ token.Token, left time.Duration) { d.note("renewed for " + left.String()) },
		Endangered: func(context.Context, token.Token, time.Duration, error) { d.note("endangered") },
		Lost: func(_ context.Context, _ token.Token, held time.Duration, _ error) {
			d.note("lost after " + held.String())
		},
		Released: func(_ context.Context, _ token.Token, held time.Duration, _ error) {
			d.note("released after " + held.String())
		},
	}
}

func TestAnObserverIsToldALeasesLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		locker := token.Locker{Issuer: &w, TTL: ttl, Observer: d.observer()}
		require.NoError(t, locker.Hold(t.Context(), account, func(ctx context.Context) error {
			require.ErrorIs(t, (&token.Locker{Issuer: struct{ token.Issuer }{&w}, Observer: d.observer()}).
				TryHold(t.Context(), account, nothing), token.ErrHeld)
			require.NoError(t, locker.Hold(ctx, account, nothing), "of a re-entry nothing is told")
			time.Sleep(ttl / 2)
			return nil
		}))
		require.Equal(t, []string{"acquired after 0s", "gave up account/42", "renewed for 900ms", "released after 500ms"}, d.lines)
	})
}

// It is warned before the loss, which it is told once, however it ends.
func TestAnObserverIsWarnedBeforeALoss(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		held, err := (&token.Locker{Issuer: &w, TTL: ttl, Observer: d.observer()}).Acquire(t.Context(), account)
		require.NoError(t, err)
		w.renew.set(fails)
		<-held.Context().Done()
		synctest.Wait()
		_ = held.Release(t.Context()) // its error is not what this is about
		require.Equal(t, "acquired after 0s", d.lines[0])
		require.Equal(t, "endangered", d.lines[1])
		require.Equal(t, "endangered", d.lines[len(d.lines)-3])
		require.Equal(t, "lost after 900ms", d.lines[len(d.lines)-2])
		require.Equal(t, "released after 900ms", d.lines[len(d.lines)-1])
	})
}

func TestWhatEndsWithItsContextIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var d diary
		ctx, cancel := context.WithCancel(t.Context())
		held, err := (&token.Locker{Issuer: &w, TTL: ttl, Observer: d.observer()}).Acquire(ctx, account)
		require.NoError(t, err)
		w.back = ttl / 10
		require.NoError(t, w.far.Release(ctx, held.Token()))
		for w.renew.calls.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel() // and the answer, that it is lost, comes later
		time.Sleep(10 * ttl)
		require.Equal(t, []string{"acquired after 0s"}, d.lines)
		_ = held.Release(t.Context()) // its time has passed
	})
}
