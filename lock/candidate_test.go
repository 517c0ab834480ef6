package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

var errLead = errors.New("lead")

func candidate(iss token.Issuer) *lock.Candidate {
	return &lock.Candidate{Locker: &lock.Locker{Issuer: iss, TTL: ttl, DangerouslyWithoutClaim: true}, Resource: account}
}

// depose frees the leader's lease behind its back, and returns when the leader's context
// has ended.
func depose(ctx context.Context, w *wire) error {
	tok, err := token.FromContext(ctx, account)
	if err != nil {
		return err
	}
	if err := w.far.Release(context.Background(), tok); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func TestWhatFollowsATerm(t *testing.T) {
	t.Parallel()
	type term = func(ctx context.Context, w *wire, cancel func()) error
	refuse := func(tok token.Token) error {
		return fmt.Errorf("write: %w", &guard.StaleError{Token: tok, Mark: guard.Mark{Number: tok.Number, Holder: "another"}})
	}
	for name, c := range map[string]struct {
		first   term
		terms   int   // how many follow, the first one included
		want    error // of Run, if each later term returns nil
		exactly bool  // nothing is joined to it
	}{
		"lead is done": {func(context.Context, *wire, func()) error { return nil }, 1, nil, true},
		"lead fails":   {func(context.Context, *wire, func()) error { return errLead }, 1, errLead, true},
		"the lease is lost, and lead returns why": {func(ctx context.Context, w *wire, _ func()) error {
			return errors.Join(depose(ctx, w), context.Cause(ctx))
		}, 2, nil, true},
		"the lease is lost, and lead returns nil": {func(ctx context.Context, w *wire, _ func()) error { return depose(ctx, w) }, 2, nil, true},
		"the lease is lost, and lead fails": {func(ctx context.Context, w *wire, _ func()) error {
			return errors.Join(depose(ctx, w), errLead)
		}, 2, nil, true},
		"a guard refuses the token": {func(ctx context.Context, w *wire, _ func()) error {
			tok, _ := token.FromContext(ctx, account)
			return refuse(tok)
		}, 2, nil, true},
		"a guard refuses another token": {func(context.Context, *wire, func()) error {
			return refuse(token.Token{Resource: "account/17", Number: 1, Holder: "a"})
		}, 1, guard.ErrStale, false},
		"the caller ends it": {func(ctx context.Context, _ *wire, cancel func()) error {
			cancel()
			<-ctx.Done()
			return nil
		}, 1, nil, true},
		"the caller ends it, and the lease is lost": {func(ctx context.Context, w *wire, cancel func()) error {
			defer cancel()
			return depose(ctx, w)
		}, 1, token.ErrLost, false},
		"the issuer does not confirm the release": {func(_ context.Context, w *wire, _ func()) error {
			w.release.set(hangs)
			return errLead
		}, 1, lock.ErrNotReleased, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				terms, last := 0, int64(0)
				candidate := candidate(&w)
				err := candidate.Run(ctx, func(ctx context.Context) error {
					tok := fromContext(t, ctx, account)
					require.Greater(t, tok.Number, last)
					require.NoError(t, candidate.IsLeader(ctx))
					last = tok.Number
					if terms++; terms == 1 {
						return c.first(ctx, &w, cancel)
					}
					return nil
				})
				require.Equal(t, c.terms, terms)
				require.ErrorIs(t, err, c.want)
				if c.exactly {
					require.Equal(t, c.want, err)
				}
				require.ErrorIs(t, candidate.IsLeader(ctx), lock.ErrNotLeader)
				w.release.set(works)
				time.Sleep(2 * ttl)
				free(t, &w)
			})
		})
	}
}

func TestALeadThatPanicsResigns(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		c := candidate(&w)
		require.PanicsWithValue(t, "lead", func() { _ = c.Run(t.Context(), func(context.Context) error { panic("lead") }) })
		free(t, &w)
		require.ErrorIs(t, c.IsLeader(t.Context()), lock.ErrNotLeader)
		require.NoError(t, c.Run(t.Context(), nothing), "it can run again")
	})
}

// Hazard L30: the candidate is elected again while the lead of its former term still runs.
// hazard L30
func TestOneLeadAtATimeInAProcess(t *testing.T) {
	lead := func(w *wire, running, most *atomic.Int32) func(ctx context.Context) error {
		var terms int
		return func(ctx context.Context) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if terms++; terms > 1 {
				return nil
			}
			err := depose(ctx, w)
			time.Sleep(time.Minute) // it ignores the loss
			return err
		}
	}
	t.Run("a Candidate", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var w wire
			var running, most atomic.Int32
			start, c := time.Now(), candidate(&w)
			go func() {
				time.Sleep(30 * time.Second)
				err := c.IsLeader(t.Context())
				if !errors.Is(err, lock.ErrNotLeader) || !errors.Is(err, token.ErrLost) {
					t.Error(err)
				}
			}()
			require.NoError(t, c.Run(t.Context(), lead(&w, &running, &most)))
			require.EqualValues(t, 1, most.Load())
			require.Greater(t, time.Since(start), time.Minute)
		})
	})
	t.Run("the twin starts the next lead at the loss", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var w wire
			var running, most atomic.Int32
			do, ended := lead(&w, &running, &most), make(chan struct{}, 2)
			for range 2 {
				_ = candidate(&w).Locker.Hold(t.Context(), account, func(ctx context.Context) error {
					done := make(chan struct{})
					go func() {
						_ = do(ctx)
						close(done)
						ended <- struct{}{}
					}()
					select {
					case <-ctx.Done():
					case <-done:
					}
					return nil
				})
			}
			<-ended
			<-ended
			require.EqualValues(t, 2, most.Load())
		})
	})
}

// faulty returns an error from the first Acquires, or a late grant for nil, and counts all.
type faulty struct {
	wire
	errs  []error
	calls int
}

func (f *faulty) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	f.calls++
	if f.calls > len(f.errs) {
		return f.wire.Acquire(ctx, resource, holder, ttl)
	}
	if err := f.errs[f.calls-1]; err != nil {
		return token.Grant{}, err
	}
	return f.wire.Acquire(ctx, resource, holder, 0) // a grant that has expired
}

func TestACampaignOutlastsWhatPasses(t *testing.T) {
	t.Parallel()
	down := fmt.Errorf("%w: refused", token.ErrUnreachable)
	for name, c := range map[string]struct {
		acquire, claim []error
		want           error
	}{
		"an outage":                    {acquire: []error{down, down, down}},
		"a grant that comes too late":  {acquire: []error{nil}},
		"a claim that fails":           {claim: []error{errCut, errCut, errCut}},
		"both":                         {acquire: []error{down}, claim: []error{errCut}},
		"a wrong password does not":    {acquire: []error{down, errCut}, want: errCut},
		"nor does a number too far up": {acquire: []error{token.ErrExhausted}, want: token.ErrExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				iss, claims := &faulty{errs: c.acquire}, 0
				candidate := candidate(iss)
				candidate.Locker.Claim = func(context.Context, token.Token) error {
					if claims++; claims <= len(c.claim) {
						return c.claim[claims-1]
					}
					return nil
				}
				start, warned := time.Now(), []string(nil)
				require.ErrorIs(t, candidate.Run(context.WithValue(t.Context(), warningsKey{}, &warned), nothing), c.want)
				require.Less(t, time.Since(start), time.Second)
				require.Equal(t, len(c.acquire)+claims, iss.calls)
				if len(c.acquire)+len(c.claim) > 1 && c.want == nil {
					require.Equal(t, []string{"lock: a candidate cannot lead"}, warned, "one failure is normal")
				} else {
					require.Empty(t, warned)
				}
			})
		})
	}
}

func TestPausesBetweenCampaignsGrowToASecond(t *testing.T) {
	bubble(t, func(t *testing.T) {
		iss := &faulty{}
		for range 1000 {
			iss.errs = append(iss.errs, token.ErrUnreachable)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		require.ErrorIs(t, candidate(iss).Run(ctx, nothing), context.Canceled)
		require.Greater(t, iss.calls, 40)
		require.Less(t, iss.calls, 130)
	})
}

// Two issuers that grant one resource depose each other's leaders at once, for ever. A
// term of some length is none of those.
func TestPausesBetweenShortTermsGrow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lasts    time.Duration
		min, max int // terms in a minute
	}{
		"short terms": {0, 40, 130},
		"long terms":  {2 * ttl, 28, 30},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Minute, cancel)
				terms := 0
				_ = candidate(new(memtoken.Issuer)).Run(ctx, func(ctx context.Context) error {
					terms++
					time.Sleep(c.lasts)
					return &guard.StaleError{Token: fromContext(t, ctx, account), Mark: guard.Mark{Number: 1}}
				})
				require.GreaterOrEqual(t, terms, c.min)
				require.LessOrEqual(t, terms, c.max)
			})
		})
	}
}

func TestAResignationKeepsHoldAtLeast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := candidate(new(wire))
		c.Locker.HoldAtLeast = time.Minute
		require.NoError(t, c.Run(t.Context(), nothing))
		require.ErrorIs(t, noWait(c.Locker).Hold(t.Context(), account, nothing), token.ErrHeld)
	})
}

// The settings of a Locker that bound a wait do not apply: a candidate waits.
func TestACandidateWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, iss := range []token.Issuer{new(wire), new(memtoken.Issuer)} {
			other := candidate(iss)
			held, err := other.Locker.Acquire(t.Context(), account)
			require.NoError(t, err)
			time.AfterFunc(time.Hour, func() { _ = held.Release(context.Background()) })
			c := candidate(iss)
			c.Locker.NoWait, c.Locker.WaitTimeout = true, time.Second
			start := time.Now()
			require.NoError(t, c.Run(t.Context(), nothing))
			require.GreaterOrEqual(t, time.Since(start), time.Hour)
			require.Less(t, time.Since(start), time.Hour+time.Second)
		}
	})
}

func TestACampaignEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, iss := range []token.Issuer{new(wire), new(memtoken.Issuer)} {
			held, err := candidate(iss).Locker.Acquire(t.Context(), account)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errLead)
			require.Equal(t, errLead, candidate(iss).Run(ctx, nothing))
			cancel()
			require.NoError(t, held.Release(t.Context()))
		}
	})
}

func TestTwoCandidatesOfAProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		iss := new(memtoken.Issuer)
		a, b := candidate(iss), candidate(iss)
		b.Locker = a.Locker
		lead, led := make(chan struct{}), make(chan *lock.Candidate)
		for _, c := range []*lock.Candidate{a, b} {
			go func() {
				_ = c.Run(t.Context(), func(context.Context) error {
					led <- c
					<-lead
					return nil
				})
			}()
		}
		first := <-led
		synctest.Wait()
		second := map[bool]*lock.Candidate{true: b, false: a}[first == a]
		require.NoError(t, first.IsLeader(t.Context()))
		require.ErrorIs(t, second.IsLeader(t.Context()), lock.ErrNotLeader)
		require.ErrorContains(t, first.Run(t.Context(), nothing), "running already")
		require.ErrorContains(t, second.Run(t.Context(), nothing), "running already")
		lead <- struct{}{}
		require.Equal(t, second, <-led)
		require.NoError(t, second.IsLeader(t.Context()))
		require.ErrorIs(t, first.IsLeader(t.Context()), lock.ErrNotLeader)
		lead <- struct{}{}
	})
}

func TestTheContextOfATermIsTheLeads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := candidate(new(memtoken.Issuer))
		_, err := c.Context()
		require.EqualError(t, err, "lock: not the leader of account/42")
		var term context.Context
		require.NoError(t, c.Run(t.Context(), func(ctx context.Context) (err error) {
			term, err = c.Context()
			require.Equal(t, ctx, term)
			require.NoError(t, c.Locker.Hold(term, account, nothing), "it nests")
			return err
		}))
		require.ErrorIs(t, context.Cause(term), token.ErrReleased)
		_, err = c.Context()
		require.EqualError(t, err, "lock: not the leader of account/42")
	})
}

// Hazard G2: a process asks whether it leads, is paused, and writes. Hazard L2: it takes
// its token at the write, under a later term of its own.
// hazards G2, L2
func TestIsLeaderBeforeAWriteIsTheBug(t *testing.T) {
	for name, take := range map[string]string{
		"the token of the term in which it read": "at the read",
		"the twin asks IsLeader and writes":      "never",
		"the twin takes its token at the write":  "at the write",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var w wire
				var marks guard.Memory
				var balance int
				c := candidate(&w)
				c.Locker.Claim = marks.Admit
				current := func() (tok token.Token, err error) {
					ctx, err := c.Context()
					if err == nil {
						tok, err = token.FromContext(ctx, account)
					}
					return tok, err
				}
				job := func(pause func()) error { // as a scheduler starts it
					if err := c.IsLeader(t.Context()); err != nil {
						return err
					}
					tok, err := current()
					seen := balance
					pause()
					if take == "at the write" {
						tok, err = current()
					}
					if take != "never" && err == nil {
						err = marks.Admit(t.Context(), tok)
					}
					if err == nil {
						balance = seen + 10
					}
					return err
				}
				resumed, late := make(chan struct{}), make(chan error)
				terms := 0
				require.NoError(t, c.Run(t.Context(), func(ctx context.Context) error {
					if terms++; terms > 1 {
						close(resumed)
						if err := <-late; take != "at the read" || !errors.Is(err, guard.ErrStale) {
							return err
						}
						return nil
					}
					go func() { late <- job(func() { <-resumed }) }()
					synctest.Wait()
					err := depose(ctx, &w)
					// Meanwhile another process leads, and writes.
					other := &lock.Locker{Issuer: &w, TTL: ttl, Claim: marks.Admit}
					require.NoError(t, other.Hold(context.Background(), account, func(context.Context) error {
						balance += 100
						return nil
					}))
					return err
				}))
				require.Equal(t, map[bool]int{true: 100, false: 10}[take == "at the read"], balance)
			})
		})
	}
}

func TestCandidatesThatCannotRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		c := candidate(&w)
		require.EqualError(t, new(lock.Candidate).Run(t.Context(), nothing), "lock: Candidate has no Locker")
		require.ErrorIs(t, (&lock.Candidate{Locker: &lock.Locker{Issuer: &w}, Resource: account}).Run(t.Context(), nothing), lock.ErrNoClaim)
		var invalid *token.InvalidError
		require.ErrorAs(t, (&lock.Candidate{Locker: c.Locker}).Run(t.Context(), nothing), &invalid)
		require.ErrorAs(t, (&lock.Candidate{Locker: c.Locker, Resource: account, Value: "\n"}).Run(t.Context(), nothing), &invalid)
		foreign := token.NewContext(t.Context(), token.Token{Resource: account, Number: 1, Holder: "a"})
		require.ErrorIs(t, c.Run(foreign, nothing), lock.ErrNotLeased)
		require.NoError(t, c.Locker.Hold(t.Context(), account, func(ctx context.Context) error {
			require.EqualError(t, c.Run(ctx, nothing), "lock: Candidate runs inside a Hold of account/42")
			return nil
		}))
		require.NoError(t, c.Run(t.Context(), nothing), "none of them has left it running")
	})
}

// A simulation offers its lease to code that takes the lock itself.
func TestACandidateTakesAnOfferedLease(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var w wire
		var reclaims int
		require.NoError(t, underOffer(t, &w, &reclaims, func(ctx context.Context, locker *lock.Locker, tok token.Token) {
			c := lock.Candidate{Locker: locker, Resource: account}
			require.NoError(t, c.Run(ctx, func(ctx context.Context) error {
				require.Equal(t, tok, fromContext(t, ctx, account))
				return nil
			}))
			require.Zero(t, reclaims)
		}))
	})
}

func TestSlotsAreTheNamesOfASemaphore(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"gpu/1", "gpu/2", "gpu/3"}, lock.Slots("gpu", 3))
	var invalid *token.InvalidError
	for _, n := range []int{0, -1} {
		err := candidate(new(memtoken.Issuer)).Locker.HoldAny(t.Context(), lock.Slots("gpu", n), nil)
		require.ErrorAs(t, err, &invalid)
	}
}
