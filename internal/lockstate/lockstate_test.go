package lockstate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/token"
)

const ttl = time.Minute

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

// heldBy returns a lock that holder holds for ttl from the epoch.
func heldBy(t *testing.T, holder string) *lockstate.Lock {
	t.Helper()
	l := &lockstate.Lock{Resource: "account/42"}
	grant, err := l.Acquire(holder, ttl, epoch)
	require.NoError(t, err)
	require.Equal(t, token.Token{Resource: "account/42", Number: lockstate.Clock(epoch), Holder: holder}, grant.Token)
	require.Equal(t, at(ttl), grant.Until)
	return l
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	next := lockstate.Clock(epoch) + 1
	for name, c := range map[string]struct {
		holder string
		when   time.Duration
		number int64 // 0 if it is refused
	}{
		"another holder, before the end":                {"b", ttl - 1, 0},
		"another holder, at the end":                    {"b", ttl, lockstate.Clock(at(ttl))},
		"the holder, before the end":                    {"a", 1, next},
		"the holder, after the end":                     {"a", 2 * ttl, lockstate.Clock(at(2 * ttl))},
		"another holder, on a clock that went backward": {"b", -ttl, 0},
		"the holder, on a clock that went backward":     {"a", -ttl, next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldBy(t, "a")
			grant, err := l.Acquire(c.holder, ttl, at(c.when))
			if c.number == 0 {
				require.Equal(t, &token.HeldError{Resource: "account/42", Holder: "a", Remaining: ttl - c.when}, err)
				require.Equal(t, "a", l.Grant.Token.Holder)
				return
			}
			require.NoError(t, err)
			require.Equal(t, token.Token{Resource: "account/42", Number: c.number, Holder: c.holder}, grant.Token)
			require.Equal(t, at(c.when+ttl), grant.Until)
			require.Equal(t, grant, l.Grant)
		})
	}
}

func TestRenewAndReleaseNeedTheHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		holder string
		when   time.Duration
		held   bool
	}{
		"the holder":                {"a", ttl - 1, true},
		"the holder, at the end":    {"a", ttl, false},
		"another holder":            {"b", 0, false},
		"another holder, afterward": {"b", 2 * ttl, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewed, released := heldBy(t, "a"), heldBy(t, "a")
			number := renewed.Number
			until, err := renewed.Renew(c.holder, 2*ttl, at(c.when))
			if c.held {
				require.NoError(t, err)
				require.Equal(t, at(c.when+2*ttl), until)
				require.Equal(t, until, renewed.Grant.Until)
				require.NoError(t, released.Release(c.holder, at(c.when)))
				require.Zero(t, released.Grant.Until)
			} else {
				require.ErrorIs(t, err, token.ErrLost)
				require.Equal(t, at(ttl), renewed.Grant.Until)
				require.ErrorIs(t, released.Release(c.holder, at(c.when)), token.ErrLost)
				require.Equal(t, at(ttl), released.Grant.Until)
			}
			require.Equal(t, []int64{number, number}, []int64{renewed.Number, released.Number}, "no number is forgotten")
		})
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	now := lockstate.Clock(epoch)
	for name, c := range map[string]struct {
		to   int64
		want error
		next int64
	}{
		"above the last number":        {now + 100, nil, now + 101},
		"the last number":              {now, token.ErrLost, now + 1},
		"below the last number":        {1, token.ErrLost, now + 1},
		"a day ahead of the clock":     {now + token.MaxAhead, nil, now + token.MaxAhead + 1},
		"more than that":               {now + token.MaxAhead + 1, token.ErrTooFarAhead, now + 1},
		"the greatest number there is": {token.MaxNumber, token.ErrTooFarAhead, now + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := heldBy(t, "a")
			require.ErrorIs(t, l.Recover(c.to, epoch), c.want)
			grant, err := l.Acquire("a", ttl, epoch)
			require.NoError(t, err)
			require.Equal(t, c.next, grant.Token.Number)
		})
	}
}

func TestNoNumberIsLeft(t *testing.T) {
	t.Parallel()
	l := &lockstate.Lock{Resource: "account/42", Number: token.MaxNumber}
	_, err := l.Acquire("a", ttl, epoch)
	require.ErrorIs(t, err, token.ErrExhausted)
	require.Zero(t, l.Grant, "nothing is held")
}

// waiters records what the waiters of a lock are granted, in order.
type waiters struct {
	*lockstate.Lock
	served []token.Grant
}

func (w *waiters) join(holder string, now time.Time) *lockstate.Waiter {
	waiter := &lockstate.Waiter{Holder: holder, TTL: ttl, Served: func(grant token.Grant, err error) {
		if err == nil {
			w.served = append(w.served, grant)
		}
	}}
	w.Join(waiter, now)
	return waiter
}

func TestEveryDecisionServesTheQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decide func(w *waiters)
		served []string
	}{
		"Release": {func(w *waiters) { _ = w.Release("a", at(1)) }, []string{"b"}},
		"Acquire, at the end": {func(w *waiters) {
			_, err := w.Acquire("newcomer", ttl, at(ttl))
			if err == nil {
				panic("the later caller has overtaken the queue")
			}
		}, []string{"b"}},
		"Acquire, by the last holder at the end": {func(w *waiters) { _, _ = w.Acquire("a", ttl, at(ttl)) }, []string{"b"}},
		"Renew, for a ttl that has passed":       {func(w *waiters) { _, _ = w.Renew("a", -ttl, at(1)) }, []string{"b"}},
		"Renew, for longer":                      {func(w *waiters) { _, _ = w.Renew("a", ttl, at(1)) }, nil},
		"Join, at the end":                       {func(w *waiters) { w.join("d", at(ttl)) }, []string{"b"}},
		"Join, before":                           {func(w *waiters) { w.join("d", at(1)) }, nil},
		"Leave, of another waiter, at the end":   {func(w *waiters) { w.Leave(w.Queue[1], at(ttl)) }, []string{"b"}},
		"Leave, of the first, at the end":        {func(w *waiters) { w.Leave(w.Queue[0], at(ttl)) }, []string{"c"}},
		"Serve, at the end":                      {func(w *waiters) { w.Serve(at(ttl)) }, []string{"b"}},
		"Serve, after each end":                  {func(w *waiters) { w.Serve(at(ttl)); w.Serve(at(3 * ttl)) }, []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &waiters{Lock: heldBy(t, "a")}
			last := w.Number
			w.join("b", epoch)
			w.join("c", epoch)
			require.Empty(t, w.served)
			c.decide(w)
			var holders []string
			for _, grant := range w.served {
				holders = append(holders, grant.Token.Holder)
				require.Greater(t, grant.Token.Number, last)
				last = grant.Token.Number
			}
			require.Equal(t, c.served, holders)
		})
	}
}

// A waiter may leave when it has been served and has not received its grant.
func TestAWaiterThatLeavesAfterItsGrantHandsTheLockOn(t *testing.T) {
	t.Parallel()
	w := &waiters{Lock: heldBy(t, "a")}
	b := w.join("b", epoch)
	w.join("c", epoch)
	require.NoError(t, w.Release("a", at(1)))
	require.Equal(t, "b", w.Grant.Token.Holder)
	w.Leave(b, at(2))
	require.Equal(t, "c", w.Grant.Token.Holder)
	w.Leave(b, at(3))
	require.Equal(t, "c", w.Grant.Token.Holder, "a waiter that has left does not free another holder's lock")
	require.Len(t, w.served, 2)
}

func TestAWaiterGetsAnErrorIfNoNumberIsLeft(t *testing.T) {
	t.Parallel()
	l := &lockstate.Lock{Resource: "account/42", Number: token.MaxNumber}
	var failed []error
	l.Join(&lockstate.Waiter{Holder: "a", TTL: ttl, Served: func(_ token.Grant, err error) { failed = append(failed, err) }}, epoch)
	require.Len(t, failed, 1)
	require.ErrorIs(t, failed[0], token.ErrExhausted)
	require.Empty(t, l.Queue)
}
