package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// taken makes another holder acquire the account, and renew it for ever.
func taken(t *testing.T, w *wire) *lock.Lease {
	t.Helper()
	held, err := (&lock.Locker{Issuer: w, Name: "other", TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
	require.NoError(t, err)
	return held
}

func TestAcquireWaitsForTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		var released time.Time
		time.AfterFunc(10*time.Minute, func() {
			released = time.Now()
			assert.NoError(t, first.Release(t.Context()))
		})
		next, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.Less(t, time.Since(released), 200*time.Millisecond)
		require.Greater(t, next.Token().Number, first.Token().Number)
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestAcquireGetsWhatExpires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		grant, err := w.Acquire(t.Context(), account, "crashed", time.Minute)
		require.NoError(t, err)
		next, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.NoError(t, err)
		require.False(t, time.Now().Before(grant.Until))
		require.Less(t, time.Since(grant.Until), 200*time.Millisecond)
		require.NoError(t, next.Release(t.Context()))
	})
}

func TestNoWaitDoesNotWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		start, locker := time.Now(), lock.Locker{Issuer: &w, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}
		_, err := noWait(&locker).Acquire(t.Context(), account)
		require.ErrorIs(t, err, token.ErrHeld)
		var held *token.HeldError
		require.True(t, errors.As(err, &held))
		require.Equal(t, &token.HeldError{Resource: account, Holder: first.Token().Holder, Remaining: ttl}, held)
		require.ErrorIs(t, noWait(&locker).Hold(t.Context(), account, nil), token.ErrHeld)
		require.NotErrorIs(t, err, lock.ErrWaitTimeout)
		require.Zero(t, time.Since(start))
		require.EqualValues(t, 3, w.acquire.calls.Load())
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, noWait(&locker).Hold(t.Context(), account, func(context.Context) error { return nil }))
	})
}

func TestWaitTimeoutBoundsTheWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		start := time.Now()
		err := (&lock.Locker{Issuer: &w, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}).Hold(t.Context(), account, nil)
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.ErrorIs(t, err, token.ErrHeld)
		require.ErrorContains(t, err, first.Token().Holder)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, first.Release(t.Context()))
	})
}

func TestWaitTimeoutBoundsAnIssuerThatDoesNotAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(hangs)
		start := time.Now()
		_, err := (&lock.Locker{Issuer: &w, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.ErrorIs(t, err, lock.ErrWaitTimeout)
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.NotErrorIs(t, err, token.ErrHeld)
		require.Equal(t, time.Minute+lock.CancelDelay, time.Since(start))
	})
}

// An outage or a refusal at the end of the wait is no contention, although the resource
// was held before.
func TestAnIssuerThatFailsAtTheEndOfTheWait(t *testing.T) {
	for name, fault := range map[string]fault{"it hangs": hangs, "it fails": ignoresCancel} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				first := taken(t, &w)
				time.AfterFunc(30*time.Second, func() { w.acquire.set(fault) })
				_, err := (&lock.Locker{Issuer: &w, WaitTimeout: time.Minute, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
				require.ErrorIs(t, err, lock.ErrWaitTimeout)
				require.Equal(t, fault == hangs, errors.Is(err, token.ErrUnreachable))
				require.Equal(t, fault == ignoresCancel, errors.Is(err, errCut))
				require.NotErrorIs(t, err, token.ErrHeld)
				require.NoError(t, first.Release(t.Context()))
			})
		})
	}
}

// overtaken is an issuer whose requests arrive after a while, also if their caller has
// returned by then.
type overtaken struct {
	token.Issuer
	late time.Duration
}

func (o *overtaken) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	type result struct {
		grant token.Grant
		err   error
	}
	reply := make(chan result, 1)
	time.AfterFunc(o.late, func() {
		grant, err := o.Issuer.Acquire(context.WithoutCancel(ctx), resource, holder, ttl)
		reply <- result{grant, err}
	})
	select {
	case r := <-reply:
		return r.grant, r.err
	case <-ctx.Done():
		return token.Grant{}, context.Cause(ctx)
	}
}

// hazard L15
//
// A release that overtakes the request would leave the resource to no caller until its
// TTL ends.
func TestARequestThatIsUnderWayIsNotOvertakenByItsRelease(t *testing.T) {
	calls := map[string]func(l *lock.Locker, ctx context.Context, fn func()) error{
		"NoWait": func(l *lock.Locker, ctx context.Context, fn func()) error {
			return noWait(l).Hold(ctx, account, func(context.Context) error { fn(); return nil })
		},
		"polling": func(l *lock.Locker, ctx context.Context, fn func()) error {
			return l.Hold(ctx, account, func(context.Context) error { fn(); return nil })
		},
		"HoldAny": func(l *lock.Locker, ctx context.Context, fn func()) error {
			return l.HoldAny(ctx, []string{account}, func(context.Context, string) error { fn(); return nil })
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				iss := &overtaken{new(memtoken.Issuer), 20 * time.Millisecond}
				locker := &lock.Locker{Issuer: iss, TTL: time.Hour, DangerouslyWithoutClaim: true}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				err := call(locker, ctx, func() { t.Error("the work runs after its context has ended") })
				require.ErrorIs(t, err, context.DeadlineExceeded)
				time.Sleep(time.Minute)
				_, err = iss.Issuer.Acquire(t.Context(), account, "successor", ttl)
				require.NoError(t, err)

				locker.WaitTimeout = 10 * time.Millisecond
				iss2 := &overtaken{new(memtoken.Issuer), 20 * time.Millisecond}
				locker.Issuer = iss2
				ran := false
				require.NoError(t, call(locker, t.Context(), func() { ran = true }), "the grant arrives a little late")
				require.True(t, ran)
				_, err = iss2.Issuer.Acquire(t.Context(), account, "successor", ttl)
				require.NoError(t, err)
			})
		})
	}
}

func TestTheContextEndsTheWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		first := taken(t, &w)
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		start := time.Now()
		_, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(ctx, account)
		require.ErrorIs(t, err, enough)
		require.ErrorIs(t, err, token.ErrHeld)
		require.NotErrorIs(t, err, lock.ErrWaitTimeout)
		require.Equal(t, time.Minute, time.Since(start))
		require.NoError(t, first.Release(t.Context()))
	})
}

// free fails t unless the account is free.
func free(t *testing.T, w *wire) {
	t.Helper()
	tok, err := w.far.Acquire(t.Context(), account, "onlooker", ttl)
	require.NoError(t, err)
	require.NoError(t, w.far.Release(t.Context(), tok.Token))
}

func TestAGrantWhoseReplyIsLostIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(dropsReplies)
		start := time.Now()
		_, err := (&lock.Locker{Issuer: &w, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.ErrorIs(t, err, errCut)
		require.ErrorContains(t, err, "lock: acquire account/42: ")
		require.EqualValues(t, 1, w.release.calls.Load())
		require.Zero(t, time.Since(start))
		free(t, &w)
	})
}

func TestAGrantThatTheCallerDoesNotAwaitIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(withholdsReplies)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := (&lock.Locker{Issuer: &w, TTL: time.Hour, DangerouslyWithoutClaim: true}).Acquire(ctx, account)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 1, w.release.calls.Load())
		free(t, &w)
	})
}

func TestAnAbandonedWaitEndsSoon(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		w.acquire.set(fails)
		w.release.set(hangs)
		start := time.Now()
		_, err := (&lock.Locker{Issuer: &w, TTL: time.Hour, DangerouslyWithoutClaim: true}).Acquire(t.Context(), account)
		require.ErrorIs(t, err, errCut)
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
	})
}

func TestAGrantThatArrivesTooLateIsLost(t *testing.T) {
	for name, late := range map[string]time.Duration{
		"after its end":     2 * ttl,
		"within its margin": ttl - ttl/20,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := wire{back: late}
				locker := lock.Locker{Issuer: &w, TTL: ttl, Claim: func(context.Context, token.Token) error {
					t.Error("a token that is over was claimed")
					return nil
				}}
				err := locker.Hold(t.Context(), account, func(context.Context) error {
					t.Error("the work ran")
					return nil
				})
				require.ErrorIs(t, err, token.ErrLost)
				require.NotErrorIs(t, err, lock.ErrNotReleased)
				require.EqualValues(t, 1, w.release.calls.Load())
				free(t, &w)
			})
		})
	}
}

func TestTheGrantOfACallerThatHasGoneIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := wire{back: ttl / 2}
		ctx, cancel := context.WithTimeout(t.Context(), ttl/4)
		defer cancel()
		_, err := (&lock.Locker{Issuer: &w, TTL: ttl, DangerouslyWithoutClaim: true}).Acquire(ctx, account)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		free(t, &w)
	})
}

var errDial = errors.New("dial: connection refused")

// down is an issuer that cannot be reached until a given time.
type down struct {
	memtoken.Issuer
	until   time.Time
	err     error
	asked   []time.Time
	holders []string
}

func (d *down) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := d.reach(holder); err != nil {
		return token.Grant{}, err
	}
	return d.Issuer.Acquire(ctx, resource, holder, ttl)
}

func (d *down) Wait(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if err := context.Cause(ctx); err != nil {
		return token.Grant{}, err
	}
	if err := d.reach(holder); err != nil {
		return token.Grant{}, err
	}
	return d.Issuer.Wait(ctx, resource, holder, ttl)
}

func (d *down) reach(holder string) error {
	d.asked, d.holders = append(d.asked, time.Now()), append(d.holders, holder)
	if time.Now().Before(d.until) {
		return d.err
	}
	return nil
}

// polled hides the queue, so that a Locker polls.
type polled struct{ token.Issuer }

func TestAnOutageIsWaitedOut(t *testing.T) {
	unreachable := fmt.Errorf("%w: %w", token.ErrUnreachable, errDial)
	for name, issuer := range map[string]func(d *down) token.Issuer{
		"in line":      func(d *down) token.Issuer { return d },
		"without line": func(d *down) token.Issuer { return polled{d} },
	} {
		begin := func(err error, lasts, wait time.Duration) (*down, *lock.Locker) {
			d := &down{until: time.Now().Add(lasts), err: err}
			return d, &lock.Locker{Issuer: issuer(d), WaitTimeout: wait, DangerouslyWithoutClaim: true}
		}
		t.Run(name+", it ends in time", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, locker := begin(unreachable, time.Minute, time.Hour)
				require.NoError(t, locker.Hold(t.Context(), account, nothing))
				holders := len(slices.Compact(d.holders))
				if _, inLine := locker.Issuer.(token.QueueIssuer); inLine {
					require.Equal(t, len(d.asked), holders, "a late release of a Wait that failed must not end this grant")
				} else {
					require.Equal(t, 1, holders, "a grant whose reply was lost is found again")
				}
				require.Less(t, len(d.asked), 200)
				for i := range d.asked[1:] {
					require.LessOrEqual(t, d.asked[i+1].Sub(d.asked[i]), 1500*time.Millisecond)
				}
			})
		})
		t.Run(name+", the wait ends first", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, locker := begin(unreachable, time.Hour, time.Minute)
				began := time.Now()
				err := locker.Hold(t.Context(), account, nothing)
				require.ErrorIs(t, err, lock.ErrWaitTimeout)
				require.ErrorIs(t, err, token.ErrUnreachable)
				require.ErrorIs(t, err, errDial)
				require.Equal(t, time.Minute, time.Since(began))
			})
		})
		t.Run(name+", the context's deadline comes first", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, locker := begin(unreachable, time.Hour, 0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := locker.Hold(ctx, account, nothing)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, errDial)
			})
		})
		t.Run(name+", another holder has it after that", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, locker := begin(unreachable, time.Second, time.Minute)
				_, err := d.Issuer.Acquire(t.Context(), account, "holder", time.Hour)
				require.NoError(t, err)
				err = locker.Hold(t.Context(), account, nothing)
				require.ErrorIs(t, err, lock.ErrWaitTimeout)
				require.ErrorIs(t, err, token.ErrHeld)
				require.NotErrorIs(t, err, token.ErrUnreachable)
			})
		})
		t.Run(name+", at once", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				began := time.Now()
				_, locker := begin(unreachable, time.Hour, 0)
				require.ErrorIs(t, locker.Hold(t.Context(), account, nothing), errDial, "nothing bounds the wait")
				d, locker := begin(unreachable, time.Hour, time.Minute)
				require.ErrorIs(t, noWait(locker).Hold(t.Context(), account, nothing), errDial)
				require.Len(t, d.asked, 1)
				d, locker = begin(errDial, time.Hour, time.Minute)
				require.ErrorIs(t, locker.Hold(t.Context(), account, nothing), errDial, "it is no outage")
				require.Len(t, d.asked, 1)
				require.Zero(t, time.Since(began))
			})
		})
	}
}
