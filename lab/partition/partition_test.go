// Package partition cuts a holder off from its issuer, and checks that its context ends
// before another holder is granted the resource.
//
//	holder ──▶ proxy ──✂──▶ issuer's servers ◀── contender
//
// If the context of a lock ends later, two holders work at the same time, whatever the
// quality of the lock's server.
package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// envRounds is how many rounds each issuer has.
const envRounds = "FENCEPOST_PARTITIONS"

const (
	// testTimeout is when a test that hangs fails.
	testTimeout = 5 * time.Minute
	// atOnce is how many rounds run at the same time.
	atOnce = 10
)

// ttl and margin are the TTL and the safety margin of leases. margin covers the delay of
// the timer that ends a lease on a busy machine. The reported lead is what is left of it.
// Full runs measure with short values.
var ttl, margin = 3 * time.Second, 1500 * time.Millisecond

func init() {
	if os.Getenv(envRounds) != "" {
		ttl, margin = time.Second, 250*time.Millisecond
	}
}

func TestMain(m *testing.M) { leaktest.Main(m) }

func rounds(t *testing.T) int { t.Helper(); return testenv.Rounds(t, envRounds, 8) }

// hazard L1
func TestStressHolderLearnsOfAPartitionBeforeTheNextGrant(t *testing.T) {
	for name, start := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var leads []time.Duration
			for n := rounds(t); len(leads) < n; {
				leads = append(leads, batch(t, start(t), hold, min(atOnce, n-len(leads)))...)
			}
			t.Log(summary(t, leads))
			require.Zero(t, tooLate(leads), "two holders worked at the same time")
		})
	}
}

// hazard L1
func TestStressHolderWithoutADeadlineLearnsOfAPartitionTooLate(t *testing.T) {
	t.Parallel()
	cutOff := onRedis(t)
	cutOff.faults = partitions[:1]
	leads := batch(t, cutOff, holdNaively, 4)
	t.Log(summary(t, leads))
	require.Equal(t, len(leads), tooLate(leads), "a lock without a deadline must be too late")
}

// batch plays rounds concurrently, each with a resource, a holder and a partition of its
// own, and returns their leads.
func batch(t *testing.T, s site, hold holding, n int) (leads []time.Duration) {
	t.Helper()
	t.Run("rounds", func(t *testing.T) {
		near, played := s.near(t), make(chan *round)
		for i := range n {
			r := &round{resource: fmt.Sprintf("round/%d", i), fault: s.faults[i%len(s.faults)], near: near, hold: hold}
			r.far, r.proxies = s.far(t)
			if i/len(s.faults)%2 == 1 {
				r.proxies = r.proxies[:len(r.proxies)/2+1] // a majority is enough
			}
			go func() {
				for range 20 {
					if r.lead, r.err = r.play(t.Context()); !errors.Is(r.err, errLostEarly) && !errors.Is(r.err, errStoodStill) {
						break
					}
				}
				played <- r
			}()
		}
		var errs []error
		for range n {
			r := <-played
			leads = append(leads, r.lead)
			if r.err != nil {
				errs = append(errs, fmt.Errorf("%s, where %s: %w", r.resource, r.fault.name, r.err))
			}
		}
		require.Empty(t, errs)
	})
	return leads
}

func tooLate(leads []time.Duration) (n int) {
	for _, lead := range leads {
		if lead < 0 {
			n++
		}
	}
	return n
}

func summary(t *testing.T, leads []time.Duration) string {
	t.Helper()
	sorted := slices.Sorted(slices.Values(leads))
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	_, name, _ := strings.Cut(t.Name(), "/")
	if n := tooLate(leads); n > 0 {
		return fmt.Sprintf("%s: too late in %d rounds of %d, by %v at the median and %v at most",
			name, n, len(leads), -round(sorted[n/2]), -round(sorted[0]))
	}
	return fmt.Sprintf("%s: in time in all %d rounds, by %v at the median and %v at least",
		name, len(leads), round(sorted[len(leads)/2]), round(sorted[0]))
}

// heldLock is a held lock: a context that ends with the lock.
type heldLock struct {
	ctx     context.Context
	release func(context.Context) error
}

// hold takes the lock by a Locker, as programs do.
func hold(ctx context.Context, iss token.Issuer, resource string) (heldLock, error) {
	lease, err := (&lock.Locker{Issuer: iss, TTL: ttl, SafetyMargin: margin, Hooks: quiet, DangerouslyWithoutClaim: true}).Acquire(ctx, resource)
	if err != nil {
		return heldLock{}, err
	}
	return heldLock{lease.Context(), lease.Release}, nil
}

// quiet keeps expected failures of renewals out of the log.
var quiet = lock.Hooks{RenewFailed: func(context.Context, token.Token, time.Duration, error) {}}

type holding func(ctx context.Context, iss token.Issuer, resource string) (heldLock, error)

// round is a partition between a holder and its issuer, while a contender waits.
type round struct {
	resource  string
	fault     fault
	far, near token.Issuer
	proxies   []*netfault.Proxy
	hold      holding

	lead time.Duration // the result of play
	err  error
}

// These are wrapped by the error of a round that has measured nothing: the machine was
// too busy to renew the lease before the partition, or ran this process's timers so late
// that no lock could have ended its lease in time.
var (
	errLostEarly  = errors.New("lost before the partition")
	errStoodStill = errors.New("the machine stood still")
)

// stoodStill measures how late timers are until stop is called. stop reports whether one
// was late by half of the safety margin.
func stoodStill() (stop func() bool) {
	const every = 20 * time.Millisecond
	end, latest := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for {
			due := time.Now().Add(every)
			select {
			case <-end:
				latest <- most
				return
			case <-time.After(every):
				most = max(most, time.Since(due))
			}
		}
	}()
	return func() bool { close(end); return <-latest > margin/2 }
}

// play returns how long before the contender had the resource the holder's context had
// ended. A negative time means that it had not ended.
func (r *round) play(ctx context.Context) (lead time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	held, err := r.hold(ctx, r.far, r.resource)
	if err != nil {
		return 0, err
	}
	ended := make(chan time.Time, 1)
	context.AfterFunc(held.ctx, func() { ended <- time.Now() })
	late := stoodStill()
	contender := r.contend(ctx, held)
	time.Sleep(rand.N(ttl)) // at any time between two renewals
	if held.ctx.Err() != nil {
		other := <-contender
		late()
		_ = held.release(ctx)
		return 0, errors.Join(fmt.Errorf("%w: %w", errLostEarly, context.Cause(held.ctx)), other.err)
	}
	for _, p := range r.proxies {
		r.fault.set(p)
	}
	other := <-contender
	end := <-ended
	for _, p := range r.proxies {
		p.Heal(netfault.Both)
	}
	_ = held.release(ctx) // a lost lease cannot be released
	lead = max(other.at.Sub(end), 0)
	if stood := late(); other.early && stood {
		return 0, errors.Join(errStoodStill, other.err)
	}
	if other.early {
		lead = -max(end.Sub(other.at), 1)
	}
	return lead, other.err
}

// contender is the next holder of the resource.
type contender struct {
	at    time.Time
	early bool // the first holder's context had not ended
	err   error
}

func (r *round) contend(ctx context.Context, held heldLock) <-chan contender {
	got := make(chan contender, 1)
	go func() {
		other, err := hold(ctx, r.near, r.resource)
		c := contender{at: time.Now(), early: held.ctx.Err() == nil, err: err}
		if err == nil {
			c.err = other.release(ctx)
		}
		got <- c
	}()
	return got
}

// usual is how long clients of Redis wait for an answer.
const usual = 3 * time.Second

// holdNaively renews in time, and relies on the lock until a renewal fails.
func holdNaively(ctx context.Context, iss token.Issuer, resource string) (heldLock, error) {
	grant, err := iss.Acquire(ctx, resource, "naive:1", ttl)
	if err != nil {
		return heldLock{}, err
	}
	held, lose := context.WithCancelCause(ctx)
	go func() {
		for {
			time.Sleep(ttl / 3)
			asked, cancel := context.WithTimeout(ctx, usual)
			_, err := iss.Renew(asked, grant.Token, ttl)
			cancel()
			if err != nil {
				lose(err)
				return
			}
		}
	}()
	return heldLock{held, func(ctx context.Context) error { return iss.Release(ctx, grant.Token) }}, nil
}

// fault is a way to cut a holder off from its issuer.
type fault struct {
	name string
	set  func(*netfault.Proxy)
}

// partitions are faults that drop packets without a reset for either side.
var partitions = []fault{
	{"nothing passes", func(p *netfault.Proxy) { p.Blackhole(netfault.Both) }},
	{"nothing arrives at the server", func(p *netfault.Proxy) { p.Blackhole(netfault.ToServer) }},
	{"no answer comes back", func(p *netfault.Proxy) { p.Blackhole(netfault.ToClient) }},
}

var faults = append(partitions[:len(partitions):len(partitions)],
	fault{"connections are reset", func(p *netfault.Proxy) { p.Cut(netfault.Both) }})
