package redistoken_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// faults are what befalls a client, one in so many; zero means never.
type faults struct {
	late, lost, doubled atomic.Int64
	delay               time.Duration // the longest
	held                atomic.Pointer[gate]
}

// gate holds messages back until it is open.
type gate struct {
	open chan struct{}
	once sync.Once
}

// hold makes messages wait until the gate is opened.
func (f *faults) hold(t *testing.T) *gate {
	g := &gate{open: make(chan struct{})}
	f.held.Store(g)
	t.Cleanup(g.let)
	return g
}

func (g *gate) let() { g.once.Do(func() { close(g.open) }) }

// client is one of addr that suffers from f. Its commands go out as they are;
// its subscriptions are slow and lossy.
func (f *faults) client(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, PoolSize: 32, MaxRetries: -1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &faultyConn{Conn: conn, faults: f}, nil
		},
	})
	client.AddHook(&doubling{faults: f})
	t.Cleanup(func() { client.Close() }) // the test may have closed it
	return client
}

func oneIn(n *atomic.Int64) bool {
	times := n.Load()
	return times > 0 && rand.N(times) == 0
}

// faultyConn is a connection that becomes unreliable with a subscription.
type faultyConn struct {
	net.Conn
	faults     *faults
	subscribed atomic.Bool
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("subscribe")) {
		c.subscribed.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *faultyConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.subscribed.Load() || !bytes.Contains(p[:n], []byte("message")) {
			return n, err
		}
		if g := c.faults.held.Load(); g != nil {
			<-g.open
		}
		if oneIn(&c.faults.late) {
			time.Sleep(rand.N(c.faults.delay))
		}
		if !oneIn(&c.faults.lost) {
			return n, nil
		}
	}
}

// doubling sends a script again, later, as a client does that has lost the
// answer, or a network that has kept a copy.
type doubling struct {
	faults *faults
	done   sync.WaitGroup
}

func (d *doubling) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *doubling) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (d *doubling) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && oneIn(&d.faults.doubled) {
			args := cmd.Args()
			d.done.Go(func() {
				time.Sleep(rand.N(d.faults.delay))
				_ = next(context.WithoutCancel(ctx), redis.NewCmd(ctx, args...))
			})
		}
		return next(ctx, cmd)
	}
}
