package httptoken_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// replica is a process that serves the locks in a Redis. SIGTERM ends it when its requests have
// their replies.
func replica(address, redisURL, prefix string) error {
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{
		Handler:           &httptoken.Handler{Issuer: &redistoken.Issuer{Client: redis.NewClient(options), Prefix: prefix}},
		BaseContext:       func(net.Listener) context.Context { return ctx }, // its end ends the waits
		ReadHeaderTimeout: time.Minute,
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() { // it ends with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() { ended <- server.Shutdown(context.Background()) })
	fmt.Println("the replica serves")
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

// process is a replica that can be ended and started again.
type process struct {
	address, redisURL, prefix string
	cmd                       *exec.Cmd
}

// start returns when the replica serves.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(os.Args[0], "replica", p.address, p.redisURL, p.prefix)
	p.cmd.Stderr = os.Stderr
	_, err := p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
}

// end sends a signal, and returns when the replica has ended.
func (p *process) end(signal os.Signal) {
	_ = p.cmd.Process.Signal(signal)
	_ = p.cmd.Wait()
}

// load is what the clients of a service do, and what they have seen.
type load struct {
	iss, few         *httptoken.Issuer // few shares a hundred connections
	leases, waiters  int
	over             time.Time
	renewals, grants atomic.Int64
	outages, late    atomic.Int64
	pause            time.Duration // between two tries
	mu               sync.Mutex
	last             map[string]int64 // the number of each lock's last holder
	faults           []string
}

func (l *load) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// again repeats call while the service cannot be reached.
func (l *load) again(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, token.ErrUnreachable) {
			return err
		}
		l.outages.Add(1)
		time.Sleep(l.pause + rand.N(l.pause))
	}
}

// hold keeps one lease, and renews it. A machine that is too busy to renew it in time may lose it,
// but not before its end.
func (l *load) hold(ctx context.Context, n int) {
	const ttl = 2 * time.Minute
	name := fmt.Sprintf("lease/%d", n)
	var grant token.Grant
	for time.Now().Before(l.over) {
		err := l.again(func() error {
			next, err := l.few.Acquire(ctx, name, "holder", ttl)
			if err == nil {
				grant = next
			}
			return err
		})
		for err == nil && time.Now().Before(l.over) {
			time.Sleep(min(ttl/6+rand.N(ttl/6), time.Until(l.over)))
			err = l.again(func() error {
				next, err := l.few.Renew(ctx, grant.Token, ttl)
				if err == nil {
					grant.Until = next
				}
				return err
			})
			l.renewals.Add(1)
		}
		if left := time.Until(grant.Until); err != nil && (left > 0 || !errors.Is(err, token.ErrLost)) {
			l.fault("%s, whose lease lasts for another %s: %v", name, left, err)
			return
		} else if err != nil {
			l.late.Add(1)
		}
	}
	err := l.again(func() error { return l.few.Release(ctx, grant.Token) })
	if err != nil && !errors.Is(err, token.ErrLost) { // a repeat of one that was executed
		l.fault("release %s: %v", name, err)
	}
}

// wait takes turns with the other waiters for a lock. After an outage it waits with a new holder,
// as a Locker does.
func (l *load) wait(ctx context.Context, n int) {
	name := fmt.Sprintf("queue/%d", n%(l.waiters/10))
	for round := 0; time.Now().Before(l.over); round++ {
		grant, err := l.iss.Wait(ctx, name, fmt.Sprintf("waiter-%d:%d", n, round), 3*time.Second)
		switch {
		case errors.Is(err, token.ErrUnreachable):
			l.outages.Add(1)
			time.Sleep(l.pause + rand.N(l.pause))
			continue
		case err != nil:
			if ctx.Err() == nil {
				l.fault("wait for %s: %v", name, err)
			}
			return
		}
		l.mu.Lock()
		if number := grant.Token.Number; time.Now().Before(grant.Until) {
			if number <= l.last[name] {
				l.faults = append(l.faults, fmt.Sprintf("%s: number %d after %d", name, number, l.last[name]))
			}
			l.last[name] = number
		}
		l.mu.Unlock()
		l.grants.Add(1)
		if err := l.again(func() error { return l.iss.Release(ctx, grant.Token) }); err != nil && !errors.Is(err, token.ErrLost) && ctx.Err() == nil {
			l.fault("release %s: %v", name, err)
		}
	}
}

// underLoad runs two replicas behind a balancer for a time, and kills and rolls them in turn.
func underLoad(t *testing.T, leases, waiters int, d time.Duration) {
	t.Helper()
	_, prefix := testenv.Redis(t)
	b := newBalancer(t)
	var replicas []*process
	for range 2 {
		p := &process{address: serverproc.Loopback(serverproc.FreePort(t)), redisURL: testenv.RedisURL(t), prefix: prefix}
		p.start(t)
		t.Cleanup(func() { p.end(os.Kill) })
		replicas = append(replicas, p)
		b.replicas = append(b.replicas, &url.URL{Scheme: "http", Host: p.address})
	}
	shared := &http.Transport{MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}
	t.Cleanup(shared.CloseIdleConnections)
	l := &load{iss: b.client(), few: &httptoken.Issuer{URL: b.URL, Client: &http.Client{Transport: shared}}, leases: leases, waiters: waiters, over: time.Now().Add(d), pause: d / 100, last: map[string]int64{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var holders, queues sync.WaitGroup
	for n := range leases {
		holders.Go(func() { l.hold(ctx, n) })
	}
	for n := range waiters {
		queues.Go(func() { l.wait(ctx, n) })
	}
	ends := 0
	for ; time.Now().Before(l.over); ends++ {
		p := replicas[ends%2]
		p.end([]os.Signal{os.Kill, os.Kill, syscall.SIGTERM, syscall.SIGTERM}[ends%4])
		p.start(t)
		time.Sleep(d / 12)
	}
	holders.Wait()
	cancel()
	queues.Wait()
	t.Logf("%d leases, %d renewals, %d waiters, %d grants; %d ends of a replica, %d calls failed and were repeated, %d leases were renewed too late",
		leases, l.renewals.Load(), waiters, l.grants.Load(), ends, l.outages.Load(), l.late.Load())
	require.Empty(t, l.faults)
	require.Positive(t, l.grants.Load())
	require.Positive(t, l.renewals.Load())
}

func TestReplicasAreKilledAndRolled(t *testing.T) {
	t.Parallel()
	underLoad(t, 100, 20, 3*time.Second)
}

func TestStressReplicas(t *testing.T) { underLoad(t, 10_000, 1_000, time.Minute) }
