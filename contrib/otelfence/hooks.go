package otelfence

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// Names of spans and events.
const (
	waitSpan         = "fencepost.lock.wait"
	holdSpan         = "fencepost.lock.hold"
	renewFailedEvent = "fencepost.lock.renew_failed"
	refusedEvent     = "fencepost.lock.refused"
	collidedEvent    = "fencepost.lock.collided"
	recoveredEvent   = "fencepost.lock.recovered"
)

// Hooks returns the hooks of a [lock.Locker]. Any number of Lockers may share them. It
// returns an error if the MeterProvider does not make an instrument.
func Hooks(c Config) (lock.Hooks, error) {
	i, err := newInstruments(c.meter())
	if err != nil {
		return lock.Hooks{}, err
	}
	l := &leases{instruments: i, kinds: newKinds(c.Kinds), tracer: c.tracer()}
	return lock.Hooks{
		Acquired: l.acquiredToken, NotAcquired: l.gaveUpWaiting,
		Renewed: l.renewedLease, RenewFailed: l.renewalFailed,
		Lost: l.lostLease, Released: l.releasedLease,
		Refused: l.refusedToken, Collided: l.collidedToken, Recovered: l.recoveredIssuer,
	}, nil
}

// leases has the instruments of leases.
type leases struct {
	*instruments
	*kinds
	tracer trace.Tracer
}

func (l *leases) acquiredToken(ctx context.Context, tok token.Token, waited time.Duration) {
	is := l.of(tok.Resource)
	l.acquired.Add(alive(ctx), 1, is.none...)
	l.wait.Record(alive(ctx), waited.Seconds(), is.acquired...)
	if sampled(ctx) {
		hindsight(ctx, l.tracer, waitSpan, waited, nil, describe(tok))
	}
}

func (l *leases) gaveUpWaiting(ctx context.Context, resource string, waited time.Duration, err error) {
	is := l.of(resource)
	l.notAcquired.Add(alive(ctx), 1, is.reasons[reason(ctx, err)]...)
	l.wait.Record(alive(ctx), waited.Seconds(), is.notAcquired...)
	if sampled(ctx) {
		hindsight(ctx, l.tracer, waitSpan, waited, err, describe(token.Token{Resource: resource}))
	}
}

func (l *leases) renewedLease(ctx context.Context, tok token.Token, _ time.Duration) {
	l.renewed.Add(alive(ctx), 1, l.of(tok.Resource).none...)
}

func (l *leases) renewalFailed(ctx context.Context, tok token.Token, _ time.Duration, err error) {
	l.renewFailed.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, renewFailedEvent, tok, err)
}

func (l *leases) lostLease(ctx context.Context, tok token.Token, held time.Duration, err error) {
	is := l.of(tok.Resource)
	l.lost.Add(alive(ctx), 1, is.none...)
	l.held(ctx, tok, held, err, is.lost)
}

// releasedLease records the hold unless the lease was lost before: then lostLease has
// recorded it.
func (l *leases) releasedLease(ctx context.Context, tok token.Token, held time.Duration, err error) {
	is, wasLost := l.of(tok.Resource), errors.Is(context.Cause(ctx), token.ErrLost)
	outcome := is.confirmed
	if err != nil {
		outcome = is.unconfirmed
	}
	ctx = alive(ctx)
	l.released.Add(ctx, 1, outcome...)
	if !wasLost {
		l.held(ctx, tok, held, err, is.released)
	}
}

func (l *leases) held(
	ctx context.Context, tok token.Token, held time.Duration, err error, outcome []metric.RecordOption,
) {
	l.hold.Record(alive(ctx), held.Seconds(), outcome...)
	if sampled(ctx) {
		hindsight(ctx, l.tracer, holdSpan, held, err, describe(tok))
	}
}

func (l *leases) refusedToken(ctx context.Context, tok token.Token, err error) {
	l.refused.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, refusedEvent, tok, err)
}

func (l *leases) collidedToken(ctx context.Context, tok token.Token, err error) {
	l.collided.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, collidedEvent, tok, err)
}

// recoveredIssuer also logs a warning, as package lock does without hooks.
func (l *leases) recoveredIssuer(ctx context.Context, tok token.Token, number int64) {
	l.recovered.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, recoveredEvent, tok, nil)
	slog.WarnContext(ctx, "lock: the issuer had forgotten its numbers, and was raised",
		"token", tok.String(), "to", number)
}
