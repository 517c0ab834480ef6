package otelfence

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/token"
)

// Names of spans and events.
const (
	waitSpan        = "fencepost.lock.wait"
	holdSpan        = "fencepost.lock.hold"
	endangeredEvent = "fencepost.lock.endangered"
	refusedEvent    = "fencepost.lock.refused"
	collidedEvent   = "fencepost.lock.collided"
	healedEvent     = "fencepost.lock.healed"
)

// Observer returns the hooks of a [token.Locker]. It may be given to any number
// of Lockers. The error is the MeterProvider's, which would not make an
// instrument.
func Observer(c Config) (token.Observer, error) {
	i, err := newInstruments(c.meter())
	if err != nil {
		return token.Observer{}, err
	}
	l := &leases{instruments: i, kinds: newKinds(c.Kinds), tracer: c.tracer()}
	return token.Observer{
		Acquired: l.acquiredToken, GaveUp: l.gaveUpWaiting,
		Renewed: l.renewedLease, Endangered: l.endangeredLease,
		Lost: l.lostLease, Released: l.releasedLease,
		Refused: l.refusedToken, Collided: l.collidedToken, Healed: l.healedIssuer,
	}, nil
}

// leases are observed.
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
	l.gaveUp.Add(alive(ctx), 1, is.reasons[reason(ctx, err)]...)
	l.wait.Record(alive(ctx), waited.Seconds(), is.gaveUp...)
	if sampled(ctx) {
		hindsight(ctx, l.tracer, waitSpan, waited, err, describe(token.Token{Resource: resource}))
	}
}

func (l *leases) renewedLease(ctx context.Context, tok token.Token, _ time.Duration) {
	l.renewed.Add(alive(ctx), 1, l.of(tok.Resource).none...)
}

func (l *leases) endangeredLease(ctx context.Context, tok token.Token, _ time.Duration, err error) {
	l.endangered.Add(alive(ctx), 1, l.of(tok.Resource).none...)
	event(ctx, endangeredEvent, tok, err)
}

func (l *leases) lostLease(ctx context.Context, tok token.Token, held time.Duration, err error) {
	is := l.of(tok.Resource)
	l.lost.Add(alive(ctx), 1, is.none...)
	l.held(ctx, tok, held, err, is.lost)
}

// releasedLease leaves out how long a lease was held that was lost before:
// lostLease has told.
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
