// Package failures tests issuers on failing servers: servers that are killed and started
// again, with and without their memory; a replica that was cut off and is promoted; an
// automatic failover. After each failure it checks two things: that the guard did not
// accept the writes of two holders under equal or falling numbers, and how soon a new
// holder writes again without an operator's help.
//
//	turns of some lockers ──▶ one is paused with the lock ──▶ the servers fail
//	──▶ the others go on ──▶ the paused one writes ──▶ the history is checked
//
// In every other round the server's clock was ahead by up to an hour, and is correct after
// the failure: the numbers of the new server are below the mark until the issuer is
// recovered.
//
// Two files test guards: settled_test.go a lost COMMIT across a promotion, and
// once_test.go units that are repeated.
package failures_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// envRounds is how many rounds each configuration has.
const envRounds = "FENCEPOST_FAILURES"

const (
	ttl = 500 * time.Millisecond
	// promised is how soon a new holder writes after the servers are back.
	promised = 2 * ttl
	// slack is an additional delay for a busy machine. It is shorter than the half hour
	// until a correct clock reaches the numbers of a clock ahead. The table counts the
	// rounds that did not need it.
	slack = 5 * time.Minute
	// testTimeout is when a test that hangs fails.
	testTimeout = 10 * time.Minute
)

func TestMain(m *testing.M) {
	testenv.AtOnce(4) // rounds wait most of the time
	redis.SetLogger(silent{})
	leaktest.Main(m)
}

// silent is a logger for clients whose servers are expected to die.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func rounds(t *testing.T) int { t.Helper(); return testenv.Rounds(t, envRounds, 2) }

// memory is what the servers remember after the failure.
type memory int

const (
	perhaps memory = iota // everything, or not
	keeps                 // everything
	forgets               // everything except the last changes
)

// survive plays the rounds, each on servers of its own. If the servers have forgotten the
// last changes, a clock that was ahead leaves marks that only a recovery passes.
func survive(t *testing.T, m memory, start func(*testing.T) system) {
	t.Helper()
	sum := summary{name: strings.ReplaceAll(t.Name(), "_", " ")}
	for n := range rounds(t) {
		ahead := n%2 == 1
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			r := newRound(t, true)
			r.play(start(t), ahead)
			r.check()
			switch {
			case m == keeps:
				require.False(t, r.grants.fell(), "the issuer had kept its memory")
			case m == forgets && ahead:
				require.True(t, r.grants.fell(), "this round must force numbers that fall")
				require.Positive(t, r.grants.recoveryCount(), "no locker recovered the issuer")
			}
			require.Less(t, r.resumed, promised+slack, "after the servers were back")
			sum.add(r)
		})
	}
	t.Log(sum.String())
}

// round is the history of a resource through one failure.
type round struct {
	*testing.T
	store
	grants  grants
	resumed time.Duration // from the return of the servers to a new holder's write
}

func newRound(t *testing.T, guarded bool) *round {
	t.Helper()
	return &round{T: t, store: store{guarded: guarded, recorder: history.NewRecorder()}}
}

// play ends when holders write again after the failure.
func (r *round) play(s system, ahead bool) {
	r.Helper()
	paused, back := r.playToTheFailure(s, ahead)
	r.resumed = r.next(paused, back)
	late := r.write(r.as("paused"), paused)
	if r.guarded {
		require.Error(r, late, "a holder that was paused wrote after its successor")
	} else {
		require.NoError(r, late)
	}
	r.turns(2)
}

// playToTheFailure returns when one holder is paused and the servers are back.
func (r *round) playToTheFailure(s system, ahead bool) (paused token.Token, back time.Time) {
	r.Helper()
	if ahead {
		r.advance(s.issuer(r.T))
	}
	r.start(s)
	r.turns(3)
	if s.depart != nil {
		s.depart()
		r.turns(2)
	}
	paused = r.pause(s.issuer(r.T))
	fault := r.recorder.Begin(history.Op{Kind: history.Fault, Writer: "the servers", Resource: resource})
	s.fail()
	fault.End(history.Accepted, nil)
	return paused, time.Now()
}

// start starts the lockers, which work until the end of the test.
func (r *round) start(s system) {
	r.Helper()
	ctx, stop := context.WithCancel(r.Context())
	var working sync.WaitGroup
	for _, name := range []string{"A", "B", "C"} {
		iss := s.issuer(r.T)
		working.Go(func() { r.work(context.WithValue(ctx, writerKey{}, name), iss) })
	}
	r.Cleanup(func() { stop(); working.Wait() })
}

// advance makes the issuer grant the numbers of a clock that is ahead.
func (r *round) advance(iss token.Issuer) {
	r.Helper()
	if hidden, ok := iss.(*forgetful); ok {
		iss = hidden.Issuer
	}
	recoverer, ok := iss.(token.Recoverer)
	require.True(r, ok, "%T cannot be recovered", iss)
	hour := int64(time.Hour / (10 * time.Microsecond))
	ahead := hour/2 + rand.N(hour/2)
	require.NoError(r, recoverer.Recover(r.Context(), resource, time.Now().UnixMicro()/10+ahead))
}

// as returns the context of a writer.
func (r *round) as(name string) context.Context {
	return context.WithValue(r.Context(), writerKey{}, name)
}

// work takes the lock and writes, again and again, after errors too.
func (r *round) work(ctx context.Context, iss token.Issuer) {
	locker := lock.Locker{Issuer: iss, Name: writer(ctx), TTL: ttl, Hooks: r.grants.observer(), DangerouslyWithoutClaim: true}
	if r.guarded {
		locker.Claim = r.claim
	}
	for ctx.Err() == nil {
		ask := r.recorder.Begin(history.Op{Kind: history.Acquire, Writer: writer(ctx), Resource: resource})
		_ = locker.Hold(ctx, resource, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, resource)
			ask.End(history.Accepted, func(op *history.Op) { op.Number, op.Holder = tok.Number, tok.Holder })
			for range 3 {
				err = errors.Join(err, r.write(ctx, tok))
				time.Sleep(2 * time.Millisecond)
			}
			return err
		})
		ask.End(history.Failed, nil) // if it was not granted
		time.Sleep(5 * time.Millisecond)
	}
}

// pause is a holder that writes once and then pauses. It starts again if its lease has
// ended before its write.
func (r *round) pause(iss token.Issuer) token.Token {
	r.Helper()
	const holder = "paused:1"
	acquire := iss.Acquire
	if queue, ok := iss.(token.QueueIssuer); ok {
		acquire = queue.Wait
	}
	var grant token.Grant
	require.Eventually(r, func() (written bool) {
		var err error
		if grant, err = acquire(r.Context(), resource, holder, ttl); err != nil {
			return false
		}
		if _, err = iss.Renew(r.Context(), grant.Token, ttl); err != nil { // a grant from a queue may be short
			return false
		}
		r.grants.add(grant.Token)
		return r.write(r.as("paused"), grant.Token) == nil
	}, testTimeout, 5*time.Millisecond, "the holder is never granted the lock")
	return grant.Token
}

// turns waits until n further holders have written.
func (r *round) turns(n int) {
	r.Helper()
	before := len(r.all())
	require.Eventually(r, func() bool {
		seen := map[string]bool{}
		for _, w := range r.all()[before:] {
			seen[w.tok.Holder] = true
		}
		return len(seen) > n // one of them had begun before
	}, testTimeout, time.Millisecond, "no holder writes")
}

// next waits for the first write after the servers were back by a holder other than the
// paused one.
func (r *round) next(paused token.Token, back time.Time) (after time.Duration) {
	r.Helper()
	require.Eventually(r, func() bool {
		for _, w := range r.all() {
			if w.tok != paused && w.at.After(back) {
				after = w.at.Sub(back)
				return true
			}
		}
		return false
	}, testTimeout, time.Millisecond, "no holder writes after the failure")
	return after
}
