package kubernetes_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// config is client-go's, of the administrator.
func (c *cluster) config() *rest.Config {
	return &rest.Config{Host: c.url(), BearerToken: secret, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}}
}

// viaClientGo returns an issuer over the client of client-go, as an operator makes it.
func (c *cluster) viaClientGo(t *testing.T) *k8stoken.Issuer {
	t.Helper()
	client, err := rest.HTTPClientFor(c.config())
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return k8stoken.New(k8stoken.Config{URL: c.config().Host, Client: client})
}

// elector is client-go's elector while it runs.
type elector struct {
	leads  chan struct{} // is closed when it leads
	leader chan string   // the identities that it sees
	stop   func()        // ends it, and returns when it has ended
	ended  chan struct{} // is closed when it has ended
}

// elect starts an elector. If releases is set, it frees the Lease when it stops.
func (c *cluster) elect(t *testing.T, name, identity string, lease time.Duration, releases bool) *elector {
	t.Helper()
	client, err := coordinationv1.NewForConfig(c.config())
	require.NoError(t, err)
	e := &elector{leads: make(chan struct{}), leader: make(chan string, 100), ended: make(chan struct{})}
	l, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Client: client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: lease, RenewDeadline: lease * 2 / 3, RetryPeriod: 50 * time.Millisecond, ReleaseOnCancel: releases,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(e.leads) },
			OnStoppedLeading: func() {},
			OnNewLeader:      func(identity string) { e.leader <- identity },
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(e.ended)
		l.Run(ctx)
	}()
	e.stop = func() {
		cancel()
		<-e.ended
	}
	t.Cleanup(e.stop)
	return e
}

// within returns when c is closed or has a value.
func within[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(serverproc.Timeout):
		t.Fatal(what)
	}
	return v
}

// hasEnded reports whether e does not lead any more, though it was not stopped.
func (e *elector) hasEnded() bool {
	select {
	case <-e.ended:
		return true
	default:
		return false
	}
}

// wait starts a waiter, and returns the channel to which its token is sent.
func wait(t *testing.T, iss *k8stoken.Issuer, name, holder string, ttl time.Duration) <-chan token.Token {
	t.Helper()
	granted := make(chan token.Token, 1)
	go func() {
		if g, err := iss.Wait(t.Context(), name, holder, ttl); err == nil {
			granted <- g.Token
		}
	}()
	return granted
}

// An operator with client-go and one with Fencepost share a Lease, as in a rolling update.
// Each leader is contended: it stops only when the other side has seen it. leaders counts
// who leads; a leader subtracts itself before it frees the Lease.
func TestElectorsAndHoldersExcludeEachOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const name, lease, terms = "my-operator", time.Minute, 50
	iss := c.viaClientGo(t)
	var leaders atomic.Int64
	lead := func(who string) { require.EqualValues(t, 1, leaders.Add(1), "%s is not the only leader", who) }
	began, number := time.Now(), int64(0)
	theirs := c.elect(t, name, "elector-0", lease, true)
	for n := range terms {
		within(t, theirs.leads, "no elector leads")
		lead("the elector")
		granted := wait(t, iss, name, fmt.Sprint("holder-", n), lease)
		awaitWaiters(t, iss, name, 1)
		require.Empty(t, granted)
		require.False(t, theirs.hasEnded(), "the elector has lost the Lease to a waiter")
		leaders.Add(-1)
		theirs.stop()

		tok := within(t, granted, "the waiter is not served")
		lead("the holder")
		require.Greater(t, tok.Number, number)
		number = tok.Number
		theirs = c.elect(t, name, fmt.Sprint("elector-", n+1), lease, true)
		for within(t, theirs.leader, "the elector sees no leader") != tok.Holder {
		}
		_, err := iss.Renew(t.Context(), tok, lease)
		require.NoError(t, err)
		leaders.Add(-1)
		require.NoError(t, iss.Release(t.Context(), tok))
	}
	t.Logf("%d changes of the leader in %v", 2*terms, time.Since(began).Round(time.Millisecond))
}

// Crowds of both kinds contend for one Lease. An elector reads and writes the Lease to
// release it, and does not try again if a waiter has joined in between: then its lease ends.
func TestCrowdsOfElectorsAndHolders(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const name, lease, each, terms = "crowd", 15 * time.Second, 4, 10
	var leaders, changes atomic.Int64
	var all sync.WaitGroup
	lead := func() bool {
		changes.Add(1)
		return leaders.Add(1) == 1
	}
	for n := range each {
		all.Go(func() {
			for m := range terms {
				e := c.elect(t, name, fmt.Sprint("elector-", n, "-", m), lease, true)
				within(t, e.leads, "the elector never leads")
				if !lead() || e.hasEnded() {
					t.Error("two leaders, one of them an elector")
				}
				time.Sleep(10 * time.Millisecond)
				leaders.Add(-1)
				e.stop()
			}
		})
		iss := c.viaClientGo(t)
		all.Go(func() {
			last := int64(0)
			for m := range terms {
				g, err := iss.Wait(t.Context(), name, fmt.Sprint("holder-", n, "-", m), lease)
				if err != nil || !lead() || g.Token.Number <= last {
					t.Errorf("two leaders, one of them a holder, or %d after %d: %v", g.Token.Number, last, err)
					return
				}
				last = g.Token.Number
				time.Sleep(10 * time.Millisecond)
				leaders.Add(-1)
				if err := iss.Release(t.Context(), g.Token); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 2*each*terms, changes.Load())
}

// Each side renews for longer than its lease, while the other one contends for it.
func TestRenewalsKeepTheOtherSideOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const lease = 10 * time.Second
	t.Run("a holder", func(t *testing.T) {
		t.Parallel()
		iss := c.viaClientGo(t)
		g, err := iss.Acquire(t.Context(), "held", "h", lease)
		require.NoError(t, err)
		theirs := c.elect(t, "held", "elector", lease, true)
		for until := time.Now().Add(lease * 3 / 2); time.Now().Before(until); time.Sleep(lease / 20) {
			_, err := iss.Renew(t.Context(), g.Token, lease)
			require.NoError(t, err)
			select {
			case <-theirs.leads:
				t.Fatal("the elector leads beside the holder")
			default:
			}
		}
		require.NoError(t, iss.Release(t.Context(), g.Token))
		within(t, theirs.leads, "the elector does not lead after the release")
	})
	t.Run("an elector", func(t *testing.T) {
		t.Parallel()
		iss := c.viaClientGo(t)
		theirs := c.elect(t, "led", "elector", lease, true)
		within(t, theirs.leads, "the elector does not lead")
		granted := wait(t, iss, "led", "w", lease)
		for until := time.Now().Add(lease * 3 / 2); time.Now().Before(until); time.Sleep(lease / 20) {
			_, err := iss.Acquire(t.Context(), "led", "h", lease)
			require.ErrorIs(t, err, token.ErrHeld)
			require.Empty(t, granted)
			require.False(t, theirs.hasEnded(), "the elector has lost the Lease")
		}
		theirs.stop()
		within(t, granted, "the waiter is not served after the release")
	})
}

func TestADeadLeaderIsReplacedByTheOtherSide(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const name, lease = "dead", 2 * time.Second
	iss := c.viaClientGo(t)
	number := int64(0)
	for n := range 3 {
		theirs := c.elect(t, name, fmt.Sprint("elector-", n), lease, false)
		within(t, theirs.leads, "the elector does not replace a dead holder")
		granted := wait(t, iss, name, fmt.Sprint("holder-", n), lease)
		awaitWaiters(t, iss, name, 1)
		theirs.stop() // and the Lease stays its own
		tok := within(t, granted, "the waiter does not replace a dead elector")
		require.Greater(t, tok.Number, number)
		number = tok.Number
	}
}
