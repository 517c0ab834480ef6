package main

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// keptAlive measures the cost of keeping many leases alive. They are acquired evenly over
// a third of their TTL, and renewed as evenly.
//
//	one renewer    a Locker: one timer, and batches of renewals
//	one by one     a goroutine and a timer for each lease, as most libraries do
//
// A lease that is not renewed is an error.
func keptAlive(ctx context.Context, e *env) (rows []row) {
	k := e.pace.kept
	for _, s := range []struct {
		name    string
		open    newKeeper
		targets usage
	}{
		{"one renewer", newRenewer, usage{client: atMost(15), packets: atMost(25), bytes: atMost(128)}},
		{"one by one", newOneByOne, usage{}},
	} {
		var u usage
		checkOf(s.name, opening(func() { u = k.steady(ctx, e, s.open) }))
		if e.pace.quick {
			s.targets = usage{} // the targets are for ten thousand leases
		}
		for _, v := range []struct {
			what  string
			value float64
			most  bound
		}{
			{"client CPU, ms/s", u.clientCPU, s.targets.client}, {"Redis CPU, ms/s", u.redisCPU, bound{}},
			{"packets/s", u.packetsSent, s.targets.packets}, {"bytes for the renewal of each", u.state, s.targets.bytes},
		} {
			r := row{name: fmt.Sprintf("%d leases kept alive, %s: %s", k.leases, s.name, v.what)}
			r.cells[overLoopback] = []value{middle([]float64{v.value}, v.most)}
			rows = append(rows, r)
		}
	}
	return rows
}

// usage is the measured cost, or the targets for it.
type usage struct {
	clientCPU, redisCPU, packetsSent, state float64
	client, packets, bytes                  bound
}

type keeping struct {
	leases int
	ttl    time.Duration
}

// period returns how often a lease is renewed.
func (k keeping) period() time.Duration { return k.ttl / 3 }

func (k keeping) resource(lease int) string { return fmt.Sprintf("lease/%d", lease) }

// keeper acquires leases and keeps them alive.
type keeper interface {
	// keep acquires a lease and renews it from then on.
	keep(ctx context.Context, lease int) error
	// release releases a lease. What remains of it stays referenced.
	release(ctx context.Context, lease int) error
	// bytes returns the bytes of a lease that serve its renewal.
	bytes() int
}

type newKeeper func(iss token.Issuer, k keeping, renewed func()) keeper

// steady keeps the leases for two periods. All of them are renewed in the second.
func (k keeping) steady(ctx context.Context, e *env, open newKeeper) usage {
	c := &client{env: e, workers: 1, sent: new(counter)}
	defer c.close()
	var renewals atomic.Int64
	kept := open(openRedistoken(ctx, c), k, func() { renewals.Add(1) })
	start := time.Now()
	for lease := range k.leases {
		due := start.Add(k.period() * time.Duration(lease) / time.Duration(k.leases))
		pause(ctx, time.Until(due))
		check(kept.keep(context.WithoutCancel(ctx), lease))
	}
	pause(ctx, time.Until(start.Add(k.period())))
	u := k.used(ctx, e, c.sent, &renewals)
	u.state = k.state(ctx, kept)
	return u
}

// used returns the cost of renewing all leases once.
func (k keeping) used(ctx context.Context, e *env, sent *counter, renewals *atomic.Int64) (u usage) {
	cpu := e.cpu(redisServer)
	ofRedis, ofClient := cpu(ctx), must(ownCPU())
	packets, renewed, start := sent.packets.Load(), renewals.Load(), time.Now()
	for renewals.Load()-renewed < int64(k.leases) { // a lost lease is not renewed, and its release fails
		pause(ctx, 10*time.Millisecond)
		if time.Since(start) > 8*k.ttl {
			check(fmt.Errorf("%d renewals, want %d", renewals.Load()-renewed, k.leases))
		}
	}
	seconds := time.Since(start).Seconds()
	u.packetsSent = float64(sent.packets.Load()-packets) / seconds
	u.clientCPU = (must(ownCPU()) - ofClient).Seconds() * 1e3 / seconds
	u.redisCPU = (cpu(ctx) - ofRedis).Seconds() * 1e3 / seconds
	return u
}

// state releases all leases, and returns the bytes that each needed for its renewal. It
// releases them one after the other: more connections would have more buffers.
func (k keeping) state(ctx context.Context, kept keeper) float64 {
	own, before := kept.bytes(), memory()
	for lease := range k.leases {
		check(kept.release(ctx, lease))
	}
	after := memory()
	runtime.KeepAlive(kept) // keeps what remains of each lease, which does not serve its renewal
	return float64(own) + (before-after)/float64(k.leases)
}

// memory returns the size of the heap and the stacks without garbage. The second
// collection frees what finalizers and pools refer to.
func memory() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse)
}

func pause(ctx context.Context, d time.Duration) {
	if d >= time.Millisecond {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	check(context.Cause(ctx))
}

// renewer renews with a Locker.
type renewer struct {
	keeping
	locker lock.Locker
	leases []*lock.Lease
}

func newRenewer(iss token.Issuer, k keeping, renewed func()) keeper {
	return &renewer{keeping: k, leases: make([]*lock.Lease, k.leases), locker: lock.Locker{
		Issuer: iss, Name: "bench", TTL: k.ttl, NoWait: true, DangerouslyWithoutClaim: true,
		Hooks: lock.Hooks{Renewed: func(context.Context, token.Token, time.Duration) { renewed() }},
	}}
}

func (r *renewer) keep(ctx context.Context, lease int) (err error) {
	r.leases[lease], err = r.locker.Acquire(ctx, r.resource(lease))
	return err
}

func (r *renewer) release(ctx context.Context, lease int) error { return r.leases[lease].Release(ctx) }

// bytes counts the fields, and the pointers to a lease in the renewer's heap and in a
// batch, which may outlive it.
func (r *renewer) bytes() (bytes int) {
	behind := reflect.TypeOf(*r.leases[0]).Field(0).Type.Elem()
	for _, name := range []string{"renewer", "entry"} {
		field, ok := behind.FieldByName(name)
		if !ok {
			check(fmt.Errorf("%s has no field %s: update the list of fields for the renewal", behind, name))
		}
		bytes += int(field.Type.Size())
	}
	return bytes + 2*strconv.IntSize/8
}

// single is a lease with a goroutine and a timer.
type single struct {
	tok   token.Token
	stop  context.CancelFunc
	ended sync.WaitGroup
	err   error // set when it has ended
}

type oneByOne struct {
	keeping
	issuer  token.Issuer
	renewed func()
	leases  []*single
}

func newOneByOne(iss token.Issuer, k keeping, renewed func()) keeper {
	return &oneByOne{keeping: k, issuer: iss, renewed: renewed, leases: make([]*single, k.leases)}
}

func (o *oneByOne) keep(ctx context.Context, lease int) error {
	grant, err := o.issuer.Acquire(ctx, o.resource(lease), holder, o.ttl)
	if err != nil {
		return err
	}
	l := &single{tok: grant.Token}
	ctx, l.stop = context.WithCancel(ctx)
	o.leases[lease] = l
	l.ended.Go(func() { l.err = o.renew(ctx, l.tok, time.Until(grant.Until)/3) })
	return nil
}

func (o *oneByOne) renew(ctx context.Context, tok token.Token, first time.Duration) error {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for ; ; timer.Reset(o.period()) {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.period())
		_, err := o.issuer.Renew(bounded, tok, o.ttl)
		cancel()
		if err != nil {
			return err
		}
		o.renewed()
	}
}

func (o *oneByOne) release(ctx context.Context, lease int) error {
	l := o.leases[lease]
	l.stop()
	l.ended.Wait()
	if l.err != nil {
		return l.err
	}
	return o.issuer.Release(ctx, l.tok)
}

// bytes returns 0: all state belongs to the goroutine.
func (o *oneByOne) bytes() int { return 0 }
