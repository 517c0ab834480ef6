package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/schedule"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

const ms = time.Millisecond

// lasting returns leases with the given times left, named "a", "b" and so on. Their TTL
// is so long that half of the time left bounds each renewal.
func lasting(left ...time.Duration) (due []lock.Timed) {
	for i, d := range left {
		due = append(due, lock.Timed{Name: string(rune('a' + i)), TTL: time.Hour, Lease: schedule.Lease{Until: d, Stop: schedule.Never}})
	}
	return due
}

// hazard L1
func TestBatches(t *testing.T) {
	t.Parallel()
	many := new(batchIssuer)
	single := polled{many}
	for name, c := range map[string]struct {
		iss  token.Issuer
		due  []lock.Timed
		want []lock.Batch
	}{
		"none":                             {many, nil, nil},
		"equal timeouts share a batch":     {many, lasting(2000*ms, 2000*ms), []lock.Batch{{1000 * ms, []string{"a", "b"}}}},
		"the shortest timeout bounds it":   {many, lasting(2000*ms, 1200*ms), []lock.Batch{{600 * ms, []string{"a", "b"}}}},
		"also if it comes first":           {many, lasting(1200*ms, 2000*ms), []lock.Batch{{600 * ms, []string{"a", "b"}}}},
		"a factor of two keeps them apart": {many, lasting(2000*ms, 1000*ms), []lock.Batch{{1000 * ms, []string{"a"}}, {500 * ms, []string{"b"}}}},
		"a lease joins the batch of its own timeout": {many, lasting(2000*ms, 10*ms, 2000*ms, 10*ms),
			[]lock.Batch{{1000 * ms, []string{"a", "c"}}, {5 * ms, []string{"b", "d"}}}},
		"no time is left":            {many, lasting(0, 2000*ms), []lock.Batch{{0, []string{"a"}}, {1000 * ms, []string{"b"}}}},
		"an issuer without RenewAll": {single, lasting(2000*ms, 2000*ms), []lock.Batch{{1000 * ms, []string{"a"}}, {1000 * ms, []string{"b"}}}},
		"one, and its leases differ": {single, lasting(2000*ms, 1200*ms), []lock.Batch{{1000 * ms, []string{"a"}}, {600 * ms, []string{"b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, lock.Batches(c.iss, c.due))
		})
	}
}

// The leases have a TTL of 3 s, so a lease that is due within 100 ms is renewed early.
// All times count from the renewer's epoch; the timer fires at 1 s.
// hazard L1
func TestWhatTheRenewerDoesWhenItsTimerFires(t *testing.T) {
	const now, until, never = 1000 * ms, 2700 * ms, schedule.Never
	timed := func(name string, s schedule.Lease) lock.Timed {
		return lock.Timed{Name: name, TTL: 3000 * ms, Lease: s}
	}
	cancelled := timed("a", schedule.Lease{Next: now, Until: until, Stop: never})
	cancelled.Cancelled = true
	for name, c := range map[string]struct {
		leases []lock.Timed
		want   lock.Fired
	}{
		"a lease that is due is renewed, and its end is next": {
			[]lock.Timed{timed("a", schedule.Lease{Next: now, Until: until, Stop: never})},
			lock.Fired{Due: []string{"a"}, Scheduled: []string{"a"}, FiresAt: until},
		},
		"a lease that is due soon is renewed with it": {
			[]lock.Timed{timed("a", schedule.Lease{Next: now + 100*ms, Until: until, Stop: never})},
			lock.Fired{Due: []string{"a"}, Scheduled: []string{"a"}, FiresAt: until},
		},
		"a lease that is due later waits": {
			[]lock.Timed{timed("a", schedule.Lease{Next: now + 101*ms, Until: until, Stop: never})},
			lock.Fired{Scheduled: []string{"a"}, FiresAt: now + 101*ms},
		},
		"a lease that is being renewed is not renewed again": {
			[]lock.Timed{timed("a", schedule.Lease{Next: until, Until: until, Stop: never, Renewing: true})},
			lock.Fired{Scheduled: []string{"a"}, FiresAt: until},
		},
		"a lease that is over ends": {
			[]lock.Timed{timed("a", schedule.Lease{Next: now, Until: now, Stop: never})},
			lock.Fired{Ended: []string{"a"}, FiresAt: never},
		},
		"a lease that is over ends while it is being renewed": {
			[]lock.Timed{timed("a", schedule.Lease{Next: now, Until: now, Stop: never, Renewing: true})},
			lock.Fired{Ended: []string{"a"}, FiresAt: never},
		},
		"HoldAtMost ends a lease that could be renewed": {
			[]lock.Timed{timed("a", schedule.Lease{Next: now, Until: until, Stop: now})},
			lock.Fired{Ended: []string{"a"}, FiresAt: never},
		},
		"a lease whose context has ended is dropped": {[]lock.Timed{cancelled}, lock.Fired{FiresAt: never}},
		"the timer is set to the first action of all that stay": {
			[]lock.Timed{
				timed("a", schedule.Lease{Next: 2500 * ms, Until: 2600 * ms, Stop: never}),
				timed("b", schedule.Lease{Next: now, Until: now, Stop: never}),
				timed("c", schedule.Lease{Next: now, Until: 2400 * ms, Stop: never}),
			},
			lock.Fired{Ended: []string{"b"}, Due: []string{"c"}, Scheduled: []string{"a", "c"}, FiresAt: 2400 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var iss memtoken.Issuer
				got := lock.Fire(&iss, now, c.leases)
				require.ElementsMatch(t, c.want.Scheduled, got.Scheduled)
				got.Scheduled = c.want.Scheduled
				require.Equal(t, c.want, got)
				require.False(t, lock.HasRenewer(&iss), "no lease is left")
			})
		})
	}
}

// A lease of 1 s with a margin of 100 ms gets the result of a renewal after 300 ms,
// before its own first renewal.
// hazard L1
func TestWhatTheRenewerDoesWithAnAnswer(t *testing.T) {
	const answered = 300 * ms
	for name, c := range map[string]struct {
		before func(held *lock.Lease)
		until  time.Duration // from the result
		err    error
		lines  []string // of the hooks
		cause  error    // of the context
		over   bool     // the lease is no longer scheduled
	}{
		"a new end":                        {until: ttl, lines: []string{"renewed for 900ms"}},
		"a new end that comes sooner":      {until: ttl / 2, lines: []string{"renewed for 400ms"}},
		"an error":                         {until: ttl, err: errCut, lines: []string{"renewal failed"}},
		"an end that has passed":           {until: -1, lines: []string{"renewal failed"}},
		"an end that passes now":           {until: 0, lines: []string{"renewal failed"}},
		"a new end within the margin":      {until: ttl / 20, lines: []string{"renewed for -50ms", "lost after 300ms"}, cause: token.ErrLost, over: true},
		"the loss":                         {err: token.ErrLost, lines: []string{"lost after 300ms"}, cause: token.ErrLost, over: true},
		"a new end, after the release":     {before: release, until: ttl, lines: []string{"released after 300ms"}, cause: token.ErrReleased, over: true},
		"an error, after the release":      {before: release, err: errCut, lines: []string{"released after 300ms"}, cause: token.ErrReleased, over: true},
		"the loss, known after it is over": {before: release, err: token.ErrLost, lines: []string{"released after 300ms"}, cause: token.ErrReleased, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var iss memtoken.Issuer
				var d diary
				held, err := (&lock.Locker{Issuer: &iss, TTL: ttl, Hooks: d.hooks(), DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
				require.NoError(t, err)
				time.Sleep(answered)
				if c.before != nil {
					c.before(held)
				}
				held.FinishRenewal(token.Renewal{Until: time.Now().Add(c.until), Err: c.err})()
				synctest.Wait()
				require.Equal(t, c.over, !lock.HasRenewer(&iss))
				require.ErrorIs(t, context.Cause(held.Context()), c.cause)
				d.mu.Lock()
				require.Equal(t, append([]string{"acquired after 0s"}, c.lines...), d.lines)
				d.mu.Unlock()
				_ = held.Release(t.Context()) // it may be over
			})
		})
	}
}

func release(held *lock.Lease) { _ = held.Release(context.Background()) }
