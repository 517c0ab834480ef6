package token_test

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

// fault is what becomes of a call.
type fault int32

const (
	works fault = iota
	fails       // at once
	hangs       // until the caller gives up
	deaf        // for a minute, whatever the caller does
	mute        // it is done, and the reply is lost
	dumb        // it is done, and no reply comes until the caller gives up
)

// wire is an issuer at the far end of a network that a test can cut.
type wire struct {
	far         memtoken.Issuer
	there, back time.Duration // the latency

	acquire, renew, release line
}

// line carries the calls of one verb.
type line struct {
	fault atomic.Int32
	calls atomic.Int64
}

func (l *line) set(f fault) { l.fault.Store(int32(f)) }

func (w *wire) call(ctx context.Context, l *line, do func() error) error {
	l.calls.Add(1)
	f := fault(l.fault.Load())
	switch f {
	case fails:
		return errCut
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case deaf:
		time.Sleep(time.Minute)
		return errCut
	}
	time.Sleep(w.there)
	err := do()
	time.Sleep(w.back)
	switch f {
	case mute:
		return errCut
	case dumb:
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
