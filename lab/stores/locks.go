package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fencepost/fencepost/contrib/natstoken"
	"github.com/fencepost/fencepost/contrib/zktoken"
	"github.com/fencepost/fencepost/internal/register"
	"github.com/fencepost/fencepost/token/consultoken"
	"github.com/fencepost/fencepost/token/etcdtoken"
	"github.com/fencepost/fencepost/token/k8stoken"
)

// locker acquires a resource, and waits for it.
type locker func(ctx context.Context, resource string) (lock, error)

type lock struct {
	renew   func(ctx context.Context) error // nil if the library alone renews
	release func(ctx context.Context) error
	last    func(ctx context.Context) (time.Time, error) // the last renewal, if the library alone renews
}

// renewed renews if it can, and returns when the lock was last renewed.
func (l lock) renewed(ctx context.Context) time.Time {
	if l.renew == nil {
		return must(l.last(ctx))
	}
	check(l.renew(ctx))
	return time.Now()
}

// swaps counts the swaps of all processes, and those that have lost.
type swaps struct{ all, lost atomic.Int64 }

func (s *swaps) read() [2]float64 { return [2]float64{float64(s.all.Load()), float64(s.lost.Load())} }

type counted struct {
	register.Store
	swaps *swaps
}

func (c counted) Swap(ctx context.Context, key, old string, next register.Record) (register.Entry, bool, error) {
	e, swapped, err := c.Store.Swap(ctx, key, old, next)
	c.swaps.all.Add(1)
	if !swapped {
		c.swaps.lost.Add(1)
	}
	return e, swapped, err
}

type clocked struct {
	counted
	register.Clocker
}

// registerOf returns the issuer that a driver's issuer embeds, in a field that has no
// exported name.
func registerOf(driver any) *register.Issuer {
	field := reflect.ValueOf(driver).Elem().Field(0)
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem().Interface().(*register.Issuer)
}

// issued uses an issuer without a Locker. Its swaps are counted.
func issued(open func(p *process) any) func(p *process) locker {
	return func(p *process) locker {
		iss := registerOf(open(p))
		store := counted{iss.Store, &p.swaps}
		clock, has := iss.Store.(register.Clocker)
		if iss.Store = store; has {
			iss.Store = clocked{store, clock}
		}
		return func(ctx context.Context, resource string) (lock, error) {
			g, err := iss.Wait(ctx, resource, "stores:"+newResource(), p.ttl)
			return lock{
				renew:   func(ctx context.Context) error { _, err := iss.Renew(ctx, g.Token, p.ttl); return err },
				release: func(ctx context.Context) error { return iss.Release(ctx, g.Token) },
			}, err
		}
	}
}

// http returns a client with connections of its own.
func (p *process) http() *http.Client {
	transport := &http.Transport{TLSClientConfig: insecure(), ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 100}
	p.later(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func etcd(p *process) any {
	return etcdtoken.New(etcdtoken.Config{Endpoints: []string{p.addr}, Client: p.http()})
}

func consul(p *process) any {
	return consultoken.New(consultoken.Config{URL: p.addr, Client: p.http()})
}

func kubernetes(p *process) any {
	return k8stoken.New(k8stoken.Config{URL: p.addr, TokenFile: p.tokenFile, Client: p.http()})
}

func nats(p *process) any {
	conn := must(natsgo.Connect(p.addr))
	p.later(conn.Close)
	js := must(jetstream.New(conn))
	bucket := must(js.CreateOrUpdateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: "fencepost"}))
	return natstoken.New(js, bucket)
}

func zooKeeper(p *process) any { return zktoken.New(zktoken.Config{Conn: p.zooKeeper()}) }

// zooKeeper returns a connection whose session ends a TTL after its last packet.
func (p *process) zooKeeper() *zk.Conn {
	conn, events, err := zk.Connect([]string{p.addr}, p.ttl, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
	check(err)
	p.later(conn.Close)
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return conn
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// mutex is etcd's, with a session for each process, which has the lease.
func mutex(p *process) locker {
	client := must(clientv3.New(clientv3.Config{Endpoints: []string{p.addr}, Logger: zap.NewNop()}))
	p.later(func() { _ = client.Close() })
	session := must(concurrency.NewSession(client, concurrency.WithTTL(int(p.ttl.Seconds()))))
	return func(ctx context.Context, resource string) (lock, error) {
		m := concurrency.NewMutex(session, "mutex/"+resource)
		return lock{
			renew:   func(ctx context.Context) error { _, err := client.KeepAliveOnce(ctx, session.Lease()); return err },
			release: m.Unlock,
		}, m.Lock(ctx)
	}
}

// znodes is go-zookeeper's lock. A request of any kind renews its session.
func znodes(p *process) locker {
	conn := p.zooKeeper()
	return func(ctx context.Context, resource string) (lock, error) {
		l := zk.NewLock(conn, "/lock/"+resource, zk.WorldACL(zk.PermAll))
		locked := make(chan error, 1)
		go func() { locked <- l.Lock() }()
		select {
		case err := <-locked:
			return lock{
				renew:   func(context.Context) error { _, _, err := conn.Exists("/lock"); return err },
				release: func(context.Context) error { return l.Unlock() },
			}, err
		case <-ctx.Done(): // it goes on until the session ends
			return lock{}, context.Cause(ctx)
		}
	}
}

// session is the lock of Consul's client, with a session for each process. Its delay is the
// shortest: it would keep a lock of a dead holder for 15 s.
func session(p *process) locker {
	config := api.DefaultConfig()
	config.Address = p.addr
	client := must(api.NewClient(config))
	p.later(config.Transport.CloseIdleConnections)
	id, _, err := client.Session().CreateNoChecks(&api.SessionEntry{TTL: p.ttl.String(), LockDelay: time.Millisecond}, nil)
	check(err)
	done := make(chan struct{})
	p.later(func() { close(done) })
	go func() { _ = client.Session().RenewPeriodic(p.ttl.String(), id, nil, done) }() // an error after a death
	return func(ctx context.Context, resource string) (lock, error) {
		l := must(client.LockOpts(&api.LockOptions{Key: "lock/" + resource, Session: id}))
		lost, err := l.Lock(ctx.Done())
		if lost == nil && err == nil {
			err = context.Cause(ctx)
		}
		return lock{
			renew:   func(context.Context) error { _, _, err := client.Session().Renew(id, nil); return err },
			release: func(context.Context) error { return l.Unlock() },
		}, err
	}
}

// elector is client-go's, with the usual settings: it renews and retries every two seconds,
// and a leader whose release fails since it collides with its renewal leads for 15 s.
func elector(p *process) locker {
	client := must(coordinationv1.NewForConfig(&rest.Config{
		Host: "https://" + p.addr, BearerTokenFile: p.tokenFile, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Dial: (&net.Dialer{}).DialContext, // its own: processes share no connections
	}))
	return func(ctx context.Context, resource string) (lock, error) {
		run, stop := context.WithCancel(context.WithoutCancel(ctx))
		leads, ended := make(chan struct{}), make(chan struct{})
		e := must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "elector-" + resource}, Client: client,
				LockConfig: resourcelock.ResourceLockConfig{Identity: newResource()},
			},
			LeaseDuration: min(p.ttl, 15*time.Second), RenewDeadline: min(p.ttl, 15*time.Second) * 2 / 3, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(leads) }, OnStoppedLeading: func() {}},
		}))
		go func() { e.Run(run); close(ended) }()
		end := func(context.Context) error { stop(); <-ended; return nil }
		p.later(stop)
		select {
		case <-leads:
		case <-ctx.Done():
			return lock{}, errors.Join(context.Cause(ctx), end(ctx))
		}
		return lock{release: end, last: func(ctx context.Context) (at time.Time, err error) {
			lease, err := client.Leases("default").Get(ctx, "elector-"+resource, metav1.GetOptions{})
			if err == nil {
				at = lease.Spec.RenewTime.Time
			}
			return at, err
		}}, nil
	}
}
