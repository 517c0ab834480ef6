package renew

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
)

// keeper acquires leases and keeps them alive.
type keeper interface {
	// keep acquires a lease, and has it renewed from then on.
	keep(ctx context.Context, lease int) error
	// release gives one back. What is known of it stays where it is.
	release(ctx context.Context, lease int) error
	// bytes are those that a lease itself has for its renewal.
	bytes() (int, error)
}

// wheel is a Locker.
type wheel struct {
	locker token.Locker
	leases []*token.Lease
}

func newWheel(iss token.Issuer, g *Group, renewed func()) keeper {
	w := &wheel{leases: make([]*token.Lease, g.Leases)}
	w.locker = token.Locker{Issuer: iss, Name: "bench", TTL: g.TTL, Observer: token.Observer{
		Renewed: func(context.Context, token.Token, time.Duration) { renewed() },
	}}
	return w
}

func (w *wheel) keep(ctx context.Context, lease int) (err error) {
	w.leases[lease], err = w.locker.TryAcquire(ctx, resource(lease))
	return err
}

func (w *wheel) release(ctx context.Context, lease int) error { return w.leases[lease].Release(ctx) }

// bytes are the fields, and the pointers to a lease that the wheel has in its heap
// and in a batch, which may outlast it.
func (w *wheel) bytes() (int, error) {
	fields, err := fieldsOf(w.leases[0], "wheel", "spoke")
	return fields + 2*strconv.IntSize/8, err
}

// one is a lease with a goroutine and a timer.
type one struct {
	tok   token.Token
	stop  context.CancelFunc
	ended sync.WaitGroup
	err   atomic.Pointer[error]
}

type oneByOne struct {
	issuer  token.Issuer
	ttl     time.Duration
	renewed func()
	leases  []*one
}

func newOneByOne(iss token.Issuer, g *Group, renewed func()) keeper {
	return &oneByOne{issuer: iss, ttl: g.TTL, renewed: renewed, leases: make([]*one, g.Leases)}
}

func (k *oneByOne) keep(ctx context.Context, lease int) error {
	grant, err := k.issuer.Acquire(ctx, resource(lease), "bench:4711:1:c2f1a9035be17d64", k.ttl)
	if err != nil {
		return err
	}
	l := &one{tok: grant.Token}
	ctx, l.stop = context.WithCancel(ctx)
	k.leases[lease] = l
	l.ended.Go(func() { k.renew(ctx, l, time.Until(grant.Until)/3) })
	return nil
}

func (k *oneByOne) renew(ctx context.Context, l *one, pause time.Duration) {
	for timer := time.NewTimer(pause); ; timer.Reset(k.ttl / 3) {
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.ttl/3)
		_, err := k.issuer.Renew(bound, l.tok, k.ttl)
		cancel()
		if err != nil {
			l.err.Store(&err)
			return
		}
		k.renewed()
	}
}

func (k *oneByOne) release(ctx context.Context, lease int) error {
	l := k.leases[lease]
	l.stop()
	l.ended.Wait()
	if err := l.err.Load(); err != nil {
		return *err
	}
	return k.issuer.Release(ctx, l.tok)
}

// bytes are none: all that there is goes with the goroutine.
func (k *oneByOne) bytes() (int, error) { return 0, nil }
