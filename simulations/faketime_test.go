package simulations_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/test/pausetest"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// inFakeTime runs a test once with each issuer, each in its own bubble.
func inFakeTime(t *testing.T, tell func(t *testing.T, issuer func() token.Issuer)) {
	for name, issuer := range map[string]func(*testing.T) func() token.Issuer{"memory": inMemory, "Redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { tell(t, issuer(t)) })
		})
	}
}

// hazard G3
func TestInFakeTimeAPauseIsSurvived(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, ctx context.Context, issuer func() token.Issuer) (*memoryCounter, error) {
		p := newMemoryCounter()
		a := newProcess("A", issuer(), p.Recorder, 1)
		first := &lock.Locker{Issuer: a, Claim: p.claim("A")} // for 10 s
		lease, err := first.Acquire(ctx, resource)
		require.NoError(t, err)
		seen := p.read()
		var others sync.WaitGroup
		others.Go(func() {
			next := &lock.Locker{Issuer: issuer(), Name: "B", Claim: p.claim("B")}
			err := next.Hold(ctx, resource, func(ctx context.Context) error { return p.add(ctx, "B", p.read()) })
			require.NoError(t, err)
		})
		a.freeze(time.Minute)
		others.Wait()
		require.ErrorIs(t, context.Cause(lease.Context()), token.ErrLost)
		err = p.add(lease.Context(), "A", seen)
		require.ErrorIs(t, lease.Release(ctx), token.ErrLost)
		return p, err
	}
	t.Run("the late write is refused", func(t *testing.T) {
		t.Parallel()
		inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
			p, err := pause(t, t.Context(), issuer)
			require.ErrorIs(t, err, guard.ErrStale)
			require.Zero(t, p.lost())
		})
	})
	t.Run("report-only, a unit is lost", func(t *testing.T) {
		t.Parallel()
		inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
			p, err := pause(t, failpoint.Unguarded(t.Context()), issuer)
			require.NoError(t, err)
			require.Equal(t, 1, p.lost())
		})
	})
}

func TestInFakeTimeALeaseIsRenewedForAnHour(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
		locker := &lock.Locker{Issuer: newProcess("A", issuer(), history.NewRecorder(), 1), DangerouslyWithoutClaim: true}
		began := time.Now()
		require.NoError(t, locker.Hold(t.Context(), resource, func(ctx context.Context) error {
			time.Sleep(time.Hour)
			require.ErrorIs(t, (&lock.Locker{Issuer: issuer(), NoWait: true, DangerouslyWithoutClaim: true}).Hold(t.Context(), resource, nil), token.ErrHeld)
			return context.Cause(ctx)
		}))
		require.Less(t, time.Since(began), time.Hour+time.Second)
	})
}

// hazard L12
func TestInFakeTimeAHungJobLosesItsLeaseAtAtMost(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
		locker := &lock.Locker{Issuer: issuer(), HoldAtMost: time.Hour, DangerouslyWithoutClaim: true}
		began := time.Now()
		err := locker.Hold(t.Context(), resource, func(ctx context.Context) error {
			<-ctx.Done()
			require.Equal(t, time.Hour, time.Since(began), "to the nanosecond")
			return nil
		})
		require.ErrorIs(t, err, token.ErrLost)
	})
}

// Twenty wait for the end of a lease whose holder is no more. hazard L7
func TestInFakeTimeAHerdOfWaitersGetsThroughOneByOne(t *testing.T) {
	t.Parallel()
	const herd = 20
	inFakeTime(t, func(t *testing.T, issuer func() token.Issuer) {
		p := newMemoryCounter()
		_, err := issuer().Acquire(t.Context(), resource, "dead", 10*time.Second)
		require.NoError(t, err)
		var waiters sync.WaitGroup
		for range herd {
			locker := &lock.Locker{Issuer: issuer(), Claim: p.claim("waiter")}
			waiters.Go(func() {
				require.NoError(t, locker.Hold(t.Context(), resource, func(ctx context.Context) error {
					seen := p.read()
					time.Sleep(10 * time.Millisecond)
					return p.add(ctx, "waiter", seen)
				}))
			})
		}
		waiters.Wait()
		require.Equal(t, herd, p.read())
		require.Zero(t, p.lost())
		require.GreaterOrEqual(t, p.Now(), 10*time.Second)
	})
}

func TestInFakeTimeNoRuleIsBrokenWhateverTheSeed(t *testing.T) {
	t.Parallel()
	const seeds = 500
	corrupted, booked, began := 0, 0, time.Now()
	for seed := range uint64(seeds) {
		c := crowd{seed: seed, names: "ABC", rounds: 4, issuer: inMemory}
		p := c.fight(t)
		require.NoError(t, p.judge(), "seed %d", seed)
		booked += p.booked
		c.twin = true
		if c.fight(t).judge() != nil {
			corrupted++
		}
	}
	t.Logf("%d seeds in %s, %d writes; the unguarded twin broke rules under %d of them", seeds, time.Since(began), booked, corrupted)
	require.Greater(t, corrupted, seeds/2, "vacuous")
}

func TestInFakeTimeTheSameSeedIsTheSameRun(t *testing.T) {
	t.Parallel()
	const seeds = 100
	different := map[string]bool{}
	for seed := range uint64(seeds) {
		c := crowd{seed: seed, names: "ABCD", rounds: 3, issuer: inMemory}
		first := c.fight(t).transcript()
		require.Equal(t, first, c.fight(t).transcript(), "seed %d", seed)
		different[first] = true
	}
	require.Len(t, different, seeds, "the seed decides nothing")
}

// onRedis is a Redis in memory, with its scripts and expiries in fake time, and a client
// for each process.
func onRedis(t *testing.T) func() token.Issuer {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return func() token.Issuer {
		client := redis.NewClient(&redis.Options{
			Addr:       "127.0.0.1:6379", // a name would be resolved outside the bubble
			Dialer:     func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			MaxRetries: -1,
			// A caller that waits for a connection takes a timer from a pool that
			// all bubbles share.
			PoolSize: 1000,
		})
		t.Cleanup(func() { client.Close() })
		iss := &redistoken.Issuer{Client: client}
		t.Cleanup(func() { require.NoError(t, iss.Close()) }) // a bubble reports goroutines that are left
		return iss
	}
}

func TestInFakeTimeRedisToo(t *testing.T) {
	t.Parallel()
	const seeds = 10
	corrupted, began := 0, time.Now()
	for seed := range uint64(seeds) {
		c := crowd{seed: seed, names: "ABC", rounds: 4, issuer: onRedis}
		p := c.fight(t)
		transcript := p.transcript()
		require.NoError(t, p.judge(), "seed %d", seed)
		require.Equal(t, transcript, c.fight(t).transcript(), "seed %d", seed)
		c.twin = true
		if c.fight(t).judge() != nil {
			corrupted++
		}
	}
	t.Logf("%d seeds in %s; the unguarded twin broke rules under %d of them", seeds, time.Since(began), corrupted)
	require.Positive(t, corrupted, "vacuous")
}

// hasty expires locks earlier than it has promised.
type hasty struct{ token.Issuer }

func (h hasty) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return h.Issuer.Acquire(ctx, resource, holder, ttl/2)
}

// careless releases the resource for any caller. hazard R7
type careless struct {
	token.Issuer
	last *atomic.Pointer[token.Token]
}

func (c careless) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := c.Issuer.Acquire(ctx, resource, holder, ttl)
	if err == nil {
		c.last.Store(&grant.Token)
	}
	return grant, err
}

func (c careless) Release(ctx context.Context, _ token.Token) error {
	return c.Issuer.Release(ctx, *c.last.Load())
}

// backwards issues decreasing numbers.
type backwards struct {
	token.Issuer
	next *atomic.Int64
}

func (b backwards) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := b.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Token.Number = 1000 + b.next.Add(-1)
	return grant, err
}

func TestInFakeTimeBrokenIssuersAreCaught(t *testing.T) {
	t.Parallel()
	for rule, mutant := range map[string]func(token.Issuer) token.Issuer{
		"mutual-exclusion": func(iss token.Issuer) token.Issuer { return hasty{iss} },
		"owner":            func(iss token.Issuer) token.Issuer { return careless{iss, new(atomic.Pointer[token.Token])} },
		"numbers":          func(iss token.Issuer) token.Issuer { return backwards{iss, new(atomic.Int64)} },
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			issuer := func(*testing.T) func() token.Issuer {
				broken := mutant(new(memtoken.Issuer))
				return func() token.Issuer { return broken }
			}
			for seed := range uint64(100) {
				err := crowd{seed: seed, names: "ABC", rounds: 4, issuer: issuer}.fight(t).judge()
				if err != nil {
					require.ErrorContains(t, err, rule+": ")
					return
				}
			}
			require.Fail(t, "not caught")
		})
	}
}

// The handler is paused between its middleware, which has admitted the request,
// and its write.
//
// hazard W1
func TestInFakeTimeAHandlerThatIsPausedIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("its write has a guard of its own, and the late client gets 412", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, late := serveTwo(t, func(ctx context.Context) context.Context { return ctx })
			require.Equal(t, http.StatusPreconditionFailed, late)
			require.Zero(t, p.lost())
		})
	})
	t.Run("without one a unit is lost, and both clients are content", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, late := serveTwo(t, failpoint.Unguarded)
			require.Equal(t, http.StatusOK, late)
			require.Equal(t, 1, p.lost())
		})
	})
}

// serveTwo returns the status of the first of two clients, whose request is paused in the
// handler past the end of its lease, until the second's has ended.
func serveTwo(t *testing.T, writing func(context.Context) context.Context) (p *memoryCounter, late int) {
	t.Helper()
	p = newMemoryCounter()
	mux, line := http.NewServeMux(), newPipes()
	guarded := httpguard.Middleware{
		Resources: httpguard.Pattern("account/{id}"), Store: &p.marks,
		DangerouslySkipInFlight: true, // the two requests stand for two replicas: they must not share an in-flight table
	}
	mux.Handle("POST /{id}", guarded.Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen, pause := p.read(), r.FormValue("pause")
			d, _ := time.ParseDuration(pause)
			time.Sleep(d)
			if err := p.add(writing(r.Context()), pause, seen); err != nil {
				httpguard.Error(w, r, err)
			}
		})))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(line) })
	transport := &http.Transport{DialContext: line.dial}
	client := &http.Client{Transport: &httpguard.Transport{Base: transport, Hosts: []string{"bank"}}}
	iss := new(memtoken.Issuer)

	var first sync.WaitGroup
	first.Go(func() { late = post(t, client, iss, "A", "1m") })
	time.Sleep(time.Second) // A's request is in its handler
	require.Equal(t, http.StatusOK, post(t, client, iss, "B", "0s"))
	first.Wait()
	transport.CloseIdleConnections()
	require.NoError(t, server.Close())
	serving.Wait()
	return p, late
}

// post sends one request under a lease that it does not renew.
func post(t *testing.T, client *http.Client, iss token.Issuer, holder, pause string) int {
	t.Helper()
	tok, err := pausetest.ShortLease(iss)(t.Context(), resource, holder)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(token.NewContext(t.Context(), tok), http.MethodPost, "http://bank/42?pause="+pause, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if errors.Is(err, guard.ErrStale) {
		return http.StatusPreconditionFailed
	}
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// pipes is a listener without a network.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	over  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), over: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.over:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.over) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}
