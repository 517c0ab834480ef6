package register_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token"
)

// died is when a holder has acquired that dies at once.
func died(t *testing.T, m *memory) time.Time {
	t.Helper()
	acquire(t, m.issuer("dead"), "dead")
	return time.Now()
}

func TestAWaiterReplacesADeadHolderWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		m.clockless = true
		at := died(t, m)
		_, err := m.issuer("b").Wait(t.Context(), "r", "b", ttl)
		require.NoError(t, err)
		require.Less(t, time.Since(at), ttl+20*trip)
	})
}

// Each try is by a new process, as a cron job's is.
func TestANewcomerReplacesADeadHolderByTheServersClock(t *testing.T) {
	t.Parallel()
	for name, clockless := range map[string]bool{"with a clock": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				m.clockless = clockless
				at := died(t, m)
				for ; ; time.Sleep(100 * time.Millisecond) {
					_, err := m.issuer("new").Acquire(t.Context(), "r", "new", ttl)
					took := time.Since(at)
					switch {
					case clockless && took > 10*ttl:
						require.ErrorIs(t, err, token.ErrHeld)
						return
					case err == nil:
						require.False(t, clockless)
						require.Greater(t, took, ttl)
						require.Less(t, took, ttl+4*time.Second)
						return
					}
					require.ErrorIs(t, err, token.ErrHeld)
				}
			})
		})
	}
}

func TestAWaiterThatLeavesHasNoPlace(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		acquire(t, m.issuer("a"), "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		joined := make(chan int, 1)
		time.AfterFunc(time.Second/2, func() { joined <- len(m.record("r").Queue) })
		_, err := m.issuer("b").Wait(ctx, "r", "b", ttl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, token.ErrHeld)
		require.Equal(t, 1, <-joined)
		require.Empty(t, m.record("r").Queue)
	})
}

// More waiters than the queue has places, each in a process of its own.
func TestWaitersBeyondTheQueueAreServedToo(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		tok := acquire(t, m.issuer("a"), "a").Token
		const crowd = 100
		served, leave := make(chan string, crowd), map[string]context.CancelFunc{}
		for n := range crowd {
			iss, holder := m.issuer("w"), fmt.Sprint("w", n)
			var ctx context.Context
			ctx, leave[holder] = context.WithCancel(t.Context())
			go func() {
				g, err := iss.Wait(ctx, "r", holder, ttl)
				if err == nil {
					err = iss.Release(context.Background(), g.Token)
				}
				served <- errors.Join(err, errors.New(holder)).Error()
			}()
		}
		time.Sleep(ttl / 2)
		require.Len(t, m.record("r").Queue, 64)
		leave[m.record("r").Queue[0].Holder]()
		time.Sleep(time.Second)
		require.Len(t, m.record("r").Queue, 64, "one of the others has its place")
		require.NoError(t, m.issuer("a").Release(t.Context(), tok))
		began, all := time.Now(), []string{}
		for range crowd {
			all = append(all, <-served)
		}
		slices.Sort(all)
		require.Len(t, slices.Compact(all), crowd)
		require.Less(t, time.Since(began), 2*ttl)
	})
}

// Thirty-two waiters of one process share one watch, and a release costs two writes: one
// hands over, and one confirms.
func TestAHandOverCostsTwoWrites(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]bool{"one process": true, "a process each": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inFakeTime(t, func(t *testing.T, m *memory) {
				const crowd = 32
				last, shared := acquire(t, m.issuer("a"), "a"), m.issuer("w")
				iss, served := m.issuer("a"), make(chan token.Grant, crowd)
				issuers := map[string]*register.Issuer{}
				for n := range crowd {
					w, holder := shared, fmt.Sprint("w", n)
					if !one {
						w = m.issuer("w")
					}
					issuers[holder] = w
					go func() {
						g, _ := w.Wait(context.Background(), "r", holder, ttl)
						served <- g
					}()
				}
				time.Sleep(ttl / 2)
				m.with(func() { m.swaps, m.conflicts, m.loads, m.events = 0, 0, 0, 0 })
				for range crowd {
					require.NoError(t, iss.Release(t.Context(), last.Token))
					began := time.Now()
					next := <-served
					require.Greater(t, next.Token.Number, last.Token.Number)
					require.Less(t, time.Since(began), 10*trip)
					last, iss = next, issuers[next.Token.Holder]
				}
				m.with(func() {
					require.Equal(t, 2*crowd, m.swaps)
					require.Zero(t, m.conflicts)
					require.LessOrEqual(t, m.loads, 1)
					if one {
						require.LessOrEqual(t, m.events, 4*crowd)
					}
				})
			})
		})
	}
}

// Thirty-two processes that join at once have a place after about 110 round trips, and lose
// 90 swaps. Longer pauses lose as many, and take twice as long.
func TestACrowdJoinsInAHundredRoundTrips(t *testing.T) {
	t.Parallel()
	const crowd, rounds = 32, 30
	var took time.Duration
	lost := 0
	for range rounds {
		inFakeTime(t, func(t *testing.T, m *memory) {
			acquire(t, m.issuer("a"), "a")
			m.with(func() { m.swaps, m.conflicts = 0, 0 })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			began := time.Now()
			for n := range crowd {
				go m.issuer("w").Wait(ctx, "r", fmt.Sprint("w", n), ttl) //nolint:errcheck // ends with ctx
			}
			for joined := 0; joined < crowd; m.with(func() { joined = m.swaps - m.conflicts }) {
				time.Sleep(trip)
			}
			took += time.Since(began)
			m.with(func() { lost += m.conflicts })
			cancel()
			time.Sleep(ttl) // the waiters leave
		})
	}
	require.Less(t, took/rounds, 180*2*trip)
	require.Less(t, lost/rounds, 130)
}

func TestInspectAndLocks(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		iss := m.issuer("a")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := iss.Inspect(ctx, "r")
		require.NoError(t, err)
		require.Equal(t, token.State{Resource: "r"}, s)
		g := acquire(t, iss, "a")
		go func() { _, _ = iss.Wait(ctx, "r", "b", ttl) }()
		time.Sleep(time.Second)
		free, err := iss.Acquire(ctx, "r2", "a", ttl)
		require.NoError(t, err)
		require.NoError(t, iss.Release(ctx, free.Token))
		_, err = iss.Acquire(ctx, "other", "a", ttl)
		require.NoError(t, err)
		writes := m.swaps
		var all []token.State
		for s, err := range m.issuer("operator").Locks(ctx, "r") {
			require.NoError(t, err)
			all = append(all, s)
		}
		require.Len(t, all, 1)
		require.Equal(t, "a", all[0].Holder)
		require.Equal(t, []string{"b"}, all[0].Waiters)
		require.Equal(t, g.Token.Number, all[0].Number)
		require.InDelta(t, ttl, all[0].Remaining, float64(2*time.Second))
		for _, err := range iss.Locks(ctx, "") {
			require.NoError(t, err)
			break
		}
		s, err = iss.Inspect(ctx, "r")
		require.NoError(t, err)
		require.Equal(t, "a", s.Holder)
		require.Equal(t, writes, m.swaps, "nothing is written")

		m.once(faults{lost: true})
		_, err = iss.Inspect(ctx, "r")
		require.ErrorIs(t, err, token.ErrUnreachable)
	})
}

// clocked is a Store whose replies have no clock.
type clocked struct {
	*client
	asked int
}

func (c *clocked) Clock(context.Context) (time.Time, error) {
	c.asked++
	return time.Now().Add(c.memory.ahead), nil
}

func TestAStoreIsAskedForItsClockOnceAMinute(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		m.clockless, m.ahead = true, -time.Hour
		store := &clocked{client: m.client("a")}
		iss := &register.Issuer{Store: store}
		tok := acquire(t, iss, "a").Token
		require.WithinDuration(t, time.Now().Add(m.ahead), time.UnixMilli(m.record("r").At), 10*trip)
		for range 12 {
			time.Sleep(ttl / 2)
			require.NoError(t, renew(iss, tok))
		}
		require.Equal(t, 2, store.asked)
		died := time.Now()
		for {
			_, err := (&register.Issuer{Store: &clocked{client: m.client("new")}}).Acquire(t.Context(), "r", "new", ttl)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, token.ErrHeld)
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, time.Since(died), ttl+3*time.Second)
	})
}

func TestRenewAllRenewsTheRestIfOneFails(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		iss := m.issuer("a")
		var batch []token.Renewal
		for n := range 64 {
			g, err := iss.Acquire(t.Context(), fmt.Sprint("r", n), "a", ttl)
			require.NoError(t, err)
			batch = append(batch, token.Renewal{Token: g.Token, TTL: ttl})
		}
		batch[7].Token.Holder = "b"
		began := time.Now()
		iss.RenewAll(t.Context(), batch)
		require.Less(t, time.Since(began), 32*trip)
		for n, r := range batch {
			if n == 7 {
				require.ErrorIs(t, r.Err, token.ErrLost)
			} else {
				require.NoError(t, r.Err)
			}
		}
	})
}

func TestNamesAreDistinct(t *testing.T) {
	t.Parallel()
	require.Equal(t, "account=2F42", register.Name("account/42"))
	require.Equal(t, "a=3D2F", register.Name("a=2F"))
	require.Equal(t, "gr=C3=B6-1_A", register.Name("grö-1_A"))
	require.Equal(t, "=20=2B=25=2E=7E=00=7F=F4=8F=BF=BF", register.Name(" +%.~\x00\x7f\U0010FFFF"))
	for name, want := range map[string]string{"account=2F42": "account/42", "=20=2B=25=2E=7E=00": " +%.~\x00", "-_": "-_"} {
		key, ok := register.Key(name)
		require.True(t, ok)
		require.Equal(t, want, key)
	}
	for _, foreign := range []string{"a/b", ".clock", "=2f", "=2", "=", "=zz", "=41", "a b", "a+b", "a%20b"} {
		_, ok := register.Key(foreign)
		require.False(t, ok, foreign)
	}
}

// outrun is a server at which another process always writes first, and which answers one Load.
type outrun struct {
	register.Store
	loads int
}

func (o *outrun) Load(ctx context.Context, key string) (register.Entry, error) {
	if o.loads++; o.loads > 1 {
		return register.Entry{}, errDown
	}
	return o.Store.Load(ctx, key)
}

func (o *outrun) Swap(ctx context.Context, key, _ string, _ register.Record) (register.Entry, bool, error) {
	e, err := o.Store.Load(ctx, key)
	return e, false, errors.Join(err, context.Cause(ctx))
}

// behind is a server at which another process has written first, so many times.
type behind struct {
	register.Store
	losses int
}

func (b *behind) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	if b.losses--; b.losses >= 0 {
		e, err := b.Load(ctx, key)
		return e, false, err
	}
	return b.Store.Swap(ctx, key, old, next)
}

func TestAChangeGivesWayForSecondsIfTheServerIsSlow(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		m.trip = func() time.Duration { return time.Second }
		began := time.Now()
		require.NoError(t, (&register.Issuer{Store: &behind{m.client("a"), 20}}).Recover(t.Context(), "r", 7))
		require.Less(t, time.Since(began), 20*15*time.Second)
	})
}

func TestAJoinThatCannotLoadAgainReturnsTheError(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, m *memory) {
		acquire(t, m.issuer("holder"), "h")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := (&register.Issuer{Store: &outrun{Store: m.client("waiter")}}).Wait(ctx, "r", "w", ttl)
		require.ErrorIs(t, err, token.ErrUnreachable)
		require.NoError(t, ctx.Err())
	})
}
