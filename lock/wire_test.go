package lock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

const (
	account = "account/42"
	ttl     = time.Second
)

var errCut = errors.New("wire: cut")

// fault is the fault of a call.
type fault int32

const (
	works            fault = iota
	fails                  // returns an error at once
	hangs                  // blocks until its context ends
	ignoresCancel          // blocks for a minute, without regard to its context
	dropsReplies           // takes effect, and returns an error
	withholdsReplies       // takes effect, and blocks until its context ends
)

// wire is an issuer behind a network that a test can cut.
type wire struct {
	far         memtoken.Issuer
	there, back time.Duration // the latency

	acquire, renew, release method
}

// method has the fault and the number of calls of a method.
type method struct {
	fault atomic.Int32
	calls atomic.Int64
}

func (m *method) set(f fault) { m.fault.Store(int32(f)) }

func (w *wire) call(ctx context.Context, m *method, do func() error) error {
	m.calls.Add(1)
	f := fault(m.fault.Load())
	switch f {
	case fails:
		return errCut
	case hangs:
		<-ctx.Done()
		return context.Cause(ctx)
	case ignoresCancel:
		time.Sleep(time.Minute)
		return errCut
	}
	time.Sleep(w.there)
	err := do()
	time.Sleep(w.back)
	switch f {
	case dropsReplies:
		return errCut
	case withholdsReplies:
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

func (w *wire) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (grant token.Grant, err error) {
	sent := time.Now()
	err = w.call(ctx, &w.acquire, func() error {
		grant, err = w.far.Acquire(ctx, resource, holder, ttl)
		return err
	})
	grant.Until = sent.Add(ttl)
	return grant, err
}

func (w *wire) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	sent := time.Now()
	err := w.call(ctx, &w.renew, func() error {
		_, err := w.far.Renew(ctx, tok, ttl)
		return err
	})
	return sent.Add(ttl), err
}

func (w *wire) Release(ctx context.Context, tok token.Token) error {
	return w.call(ctx, &w.release, func() error { return w.far.Release(ctx, tok) })
}
