package register_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockstate"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

const (
	ttl  = 10 * time.Second
	trip = time.Millisecond
)

// inFakeTime runs test in fake time, with a server to which each way takes a millisecond.
func inFakeTime(t *testing.T, test func(t *testing.T, m *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &memory{trip: func() time.Duration { return trip }})
		time.Sleep(time.Second) // cancelled watches end
	})
}

func acquire(t *testing.T, iss *register.Issuer, holder string) token.Grant {
	t.Helper()
	g, err := iss.Acquire(t.Context(), "r", holder, ttl)
	require.NoError(t, err)
	return g
}

// once makes f the faults of the next call only.
func (m *memory) once(f faults) { m.with(func() { m.drawOnce(f) }) }

func (m *memory) drawOnce(f faults) {
	m.faults = func() faults {
		m.faults = nil
		return f
	}
}

// hazard L17
func TestARenewalAfterARestoreDoesNotOverwriteTheNextHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, loadFirst, overwrites bool }{
		"versions have the value":                {values: true},
		"each decision loads first":              {loadFirst: true},
		"twin: versions repeat, and it does not": {overwrites: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				m.values = c.values
				a, b := m.issuer("a"), m.issuer("b")
				a.LoadFirst, b.LoadFirst = c.loadFirst, c.loadFirst
				restore := m.backup()
				ga := acquire(t, a, "a")
				restore()
				gb := acquire(t, b, "b")
				require.Greater(t, gb.Token.Number, ga.Token.Number)
				_, err := a.Renew(t.Context(), ga.Token, ttl)
				if c.overwrites {
					require.NoError(t, err)
					require.Equal(t, "a", m.record("r").Holder)
					return
				}
				require.ErrorIs(t, err, token.ErrLost)
				_, err = b.Renew(t.Context(), gb.Token, ttl)
				require.NoError(t, err)
			})
		})
	}
}

// hazard L18
func TestNumbersRiseAfterALossWithinOneSecondOfTheServersClock(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		restore := m.backup()
		first := acquire(t, m.issuer("a"), "a").Token.Number
		twin, err := (&lockstate.Lock{}).Acquire("a", ttl, time.Now().Truncate(time.Second))
		require.NoError(t, err)
		restore()
		require.Greater(t, acquire(t, m.issuer("b"), "b").Token.Number, first)
		repeated, err := (&lockstate.Lock{}).Acquire("b", ttl, time.Now().Truncate(time.Second))
		require.NoError(t, err)
		require.Equal(t, twin.Token.Number, repeated.Token.Number, "the twin mints the server's clock")
	})
}

// hazard L19
func TestAStaleLoadIsNoProofThatALeaseIsLost(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*register.Issuer, token.Token) error{
		"Renew":   func(iss *register.Issuer, tok token.Token) error { return renew(iss, tok) },
		"Release": func(iss *register.Issuer, tok token.Token) error { return iss.Release(context.Background(), tok) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				iss := m.issuer("a")
				iss.LoadFirst = true
				tok := acquire(t, iss, "a").Token
				m.once(faults{stale: 1})
				twin, err := m.client("a").Load(t.Context(), "r")
				require.NoError(t, err)
				require.Empty(t, twin.Holder, "the twin believes what it loads: a has lost its lease")
				m.once(faults{stale: 1})
				require.NoError(t, call(iss, tok))
			})
		})
	}
}

func renew(iss *register.Issuer, tok token.Token) error {
	_, err := iss.Renew(context.Background(), tok, ttl)
	return err
}

// A stale event is not the end of the wait, and neither is a watch that is broken or deaf.
//
// hazard L19
func TestAWaiterIsServedWhateverItsWatchReturns(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]faults{"stale": {stale: 1}, "broken": {broken: true}, "broken once": {broken: true}, "deaf": {deaf: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				g := acquire(t, m.issuer("a"), "a")
				calls, once := 0, name == "broken once"
				m.with(func() {
					m.faults = func() faults {
						if calls++; once && calls > 4 { // of which the third is the first Watch
							return faults{}
						}
						return f
					}
				})
				if f.stale > 0 {
					m.once(f)
				}
				time.AfterFunc(time.Second, func() { _ = m.issuer("other").Release(context.Background(), g.Token) })
				began := time.Now()
				_, err := m.issuer("b").Wait(t.Context(), "r", "b", ttl)
				require.NoError(t, err)
				if once { // the next watch is another
					require.Less(t, time.Since(began), time.Second+100*trip)
				} else if f.deaf { // it judges by the lease, as if the holder had died
					require.Less(t, time.Since(began), ttl+time.Second)
				} else {
					require.Less(t, time.Since(began), 3*time.Second)
				}
			})
		})
	}
}

// The request is executed after its caller was told that it has failed, and after the
// release that undoes it.
//
// hazards R6, L15
func TestASwapThatArrivesAfterTheReleaseGrantsNothing(t *testing.T) {
	t.Parallel()
	for name, released := range map[string]bool{"released": true, "twin: not released": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				iss := m.issuer("a")
				acquire(t, iss, "before")
				require.NoError(t, iss.Release(t.Context(), token.Token{Resource: "r", Number: 1, Holder: "before"}))
				m.once(faults{late: time.Second})
				_, err := iss.Acquire(t.Context(), "r", "a", ttl)
				require.ErrorIs(t, err, token.ErrUnreachable)
				if released {
					require.ErrorIs(t, iss.Release(t.Context(), token.Token{Resource: "r", Number: 1, Holder: "a"}), token.ErrLost)
				}
				time.Sleep(2 * time.Second)
				_, err = m.issuer("b").Acquire(t.Context(), "r", "b", ttl)
				if released {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, token.ErrHeld)
				}
			})
		})
	}
}

// hazard R6
func TestALostReplyIsUnknownAndIsFoundByARepeat(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		iss := m.issuer("a")
		lost := func() { // the reply to the second call, which is the Swap
			m.with(func() {
				m.faults = func() faults {
					m.drawOnce(faults{lost: true})
					return faults{}
				}
			})
		}
		lost()
		_, err := iss.Acquire(t.Context(), "r", "a", ttl)
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.Equal(t, "a", m.record("r").Holder, "the twin believes the error: the lock is free")
		tok := acquire(t, iss, "a").Token
		m.once(faults{lost: true})
		require.ErrorIs(t, iss.Release(t.Context(), tok), token.ErrUnreachable)
		require.Empty(t, m.record("r").Holder)
		require.ErrorIs(t, iss.Release(t.Context(), tok), token.ErrLost)
	})
}

// hazard L20
func TestAClientWhoseClockIsOffLiftsNoNumber(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ahead     time.Duration
		clockless bool
	}{
		"ahead":                         {ahead: time.Hour},
		"behind":                        {ahead: -time.Hour},
		"twin: the server has no clock": {ahead: time.Hour, clockless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				m.ahead, m.clockless = -c.ahead, c.clockless
				number := acquire(t, m.issuer("a"), "a").Token.Number
				off := time.Duration(number-lockstate.Clock(time.Now().Add(m.ahead))) * 10 * time.Microsecond
				if c.clockless {
					require.Greater(t, off, time.Minute)
				} else {
					require.Less(t, off.Abs(), 2*time.Second)
				}
			})
		})
	}
}

// hazard L21
func TestAStepOfTheServersClockEndsNoLeaseThatAProcessHasSeen(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"forward": time.Hour, "backward": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				a, b := m.issuer("a"), m.issuer("b")
				tok := acquire(t, a, "a").Token
				_, err := b.Acquire(t.Context(), "r", "b", ttl)
				require.ErrorIs(t, err, token.ErrHeld)
				m.with(func() { m.ahead = ahead })
				for range 3 {
					_, err = b.Acquire(t.Context(), "r", "b", ttl)
					require.ErrorIs(t, err, token.ErrHeld)
					time.Sleep(ttl / 3)
					require.NoError(t, renew(a, tok))
				}
				m.with(func() { m.ahead = 2 * ahead })
				_, err = m.issuer("twin").Acquire(t.Context(), "r", "twin", ttl)
				if ahead > 0 {
					require.NoError(t, err, "the twin has not seen the lease before, and believes the clock")
					require.ErrorIs(t, renew(a, tok), token.ErrLost)
					return
				}
				require.ErrorIs(t, err, token.ErrHeld)
				_, err = b.Acquire(t.Context(), "r", "b", ttl)
				require.ErrorIs(t, err, token.ErrHeld)
				time.Sleep(ttl)
				_, err = b.Acquire(t.Context(), "r", "b", ttl)
				require.NoError(t, err, "the holder is dead, whatever the clock")
			})
		})
	}
}

// A renewal from the entry that was kept has no reply with a clock before it.
//
// hazard L22
func TestARenewalFromAKeptEntryHasTheServersTime(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		m.ahead = time.Hour // the holder's clock is an hour behind
		a := m.issuer("a")
		tok := acquire(t, a, "a").Token
		for range 6 {
			time.Sleep(ttl / 3)
			loads := m.loads
			require.NoError(t, renew(a, tok))
			require.Equal(t, loads, m.loads, "the renewal has loaded nothing")
		}
		_, err := m.issuer("new").Acquire(t.Context(), "r", "new", ttl)
		require.ErrorIs(t, err, token.ErrHeld)

		e := m.record("r")
		e.Beat, e.At = e.Beat+1, time.Now().UnixMilli() // as the twin writes, by the holder's clock
		_, swapped, err := m.client("a").Swap(t.Context(), "r", e.Version, e.Record)
		require.True(t, swapped)
		require.NoError(t, err)
		acquire(t, m.issuer("newer"), "newer")
	})
}

// hazard L23
func TestTheWaitersOfADeadProcessAreDroppedAtOnce(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]int{"one process": 1, "twin: a process each": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				a := m.issuer("a")
				tok := acquire(t, a, "a").Token
				ctx, cancel := context.WithCancel(t.Context())
				dead := make([]*client, processes)
				issuers := make([]*register.Issuer, processes)
				for n := range dead {
					dead[n] = m.client(fmt.Sprint("dead-", n))
					issuers[n] = &register.Issuer{Store: dead[n]}
				}
				for n := range 8 {
					go func() { _, _ = issuers[n%processes].Wait(ctx, "r", fmt.Sprint("dead-", n), ttl) }()
					time.Sleep(time.Second)
				}
				for _, c := range dead {
					c.kill()
				}
				cancel()
				require.NoError(t, renew(a, tok))
				time.AfterFunc(time.Second, func() { _ = a.Release(context.Background(), tok) })
				released := time.Now().Add(time.Second)
				_, err := m.issuer("b").Wait(t.Context(), "r", "b", ttl)
				require.NoError(t, err)
				if took := time.Since(released); processes == 1 {
					require.Less(t, took, 2*time.Second)
				} else {
					require.Greater(t, took, 8*time.Second)
				}
			})
		})
	}
}

// hazard L24
func TestACrowdThatJoinsDoesNotKeepTheHolderFromRenewing(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]bool{"joins give way": false, "twin: joins repeat at once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				a := m.issuer("a")
				tok := acquire(t, a, "a").Token
				ctx, cancel := context.WithCancel(t.Context())
				for n := range 64 {
					if twin {
						go joinAtOnce(ctx, m.client("twin"), n)
					} else {
						go func() { _, _ = m.issuer("w").Wait(ctx, "r", fmt.Sprint("w", n), ttl) }()
					}
				}
				limited, over := context.WithTimeout(t.Context(), time.Second)
				defer over()
				worst := time.Duration(0)
				for n := 0; n < 50 && limited.Err() == nil; n++ {
					began := time.Now()
					_, err := a.Renew(limited, tok, ttl)
					worst = max(worst, time.Since(began))
					if !twin {
						require.NoError(t, err)
					}
					time.Sleep(trip)
				}
				require.Equal(t, twin, worst > 50*trip, worst)
				cancel()
				time.Sleep(time.Minute)
			})
		})
	}
}

// joinAtOnce adds a waiter, and then another, as fast as the server replies.
func joinAtOnce(ctx context.Context, c *client, n int) {
	e, err := c.Load(ctx, "r")
	for err == nil {
		next := e.Record
		next.Queue = []register.Waiter{{Holder: fmt.Sprint("w", n, time.Now())}}
		e, _, err = c.Swap(ctx, "r", e.Version, next)
	}
}

// hazard L25
func TestAWaiterThatJoinsIsNoSignOfLifeOfTheHolder(t *testing.T) {
	t.Parallel()
	for name, twin := range map[string]bool{"joins": false, "twin: joins that beat": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				m.clockless = true
				acquire(t, m.issuer("dead"), "dead")
				died := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 5*ttl)
				defer cancel()
				go func() {
					for n := 0; ctx.Err() == nil; n++ {
						coming, left := context.WithTimeout(ctx, time.Second)
						_, _ = m.issuer("w").Wait(coming, "r", fmt.Sprint("w", n), ttl)
						left()
						if e := m.record("r"); twin {
							e.Beat++
							_, _, _ = m.client("w").Swap(ctx, "r", e.Version, e.Record)
						}
					}
				}()
				_, err := m.issuer("b").Wait(ctx, "r", "b", ttl)
				if twin {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				} else {
					require.NoError(t, err)
					require.Less(t, time.Since(died), ttl+2*time.Second)
				}
				cancel()
			})
		})
	}
}
