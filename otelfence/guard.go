package otelfence

import (
	"context"
	"errors"
	"log/slog"

	"go.opentelemetry.io/otel/metric"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

const (
	guardRefusedEvent  = "fencepost.guard.refused"
	guardObservedEvent = "fencepost.guard.observed"
)

// GuardObserver returns the hooks of a guard: of a sqlguard.Guard, say, or a
// redisguard.Guard. It may be given to any number of them. For errors see
// [Observer]. [Config.Kinds] does not apply, since a refused writer may have no
// resource.
func GuardObserver(c Config) (guard.Observer, error) {
	m := &maker{meter: c.meter()}
	g := &guards{
		refused:  m.counter("guard.refused", "{write}", "Writes that a guard refused."),
		observed: m.counter("guard.observed", "{write}", "Writes that a guard would have refused, and let pass."),
		reasons:  map[string][]metric.AddOption{},
	}
	if err := m.err(); err != nil {
		return guard.Observer{}, err
	}
	for _, r := range refusals {
		g.reasons[r.name] = []metric.AddOption{metric.WithAttributes(reasonKey.String(r.name))}
	}
	return guard.Observer{Refused: g.refusedWrite, Observed: g.observedWrite}, nil
}

// guards are observed.
type guards struct {
	refused, observed metric.Int64Counter
	reasons           map[string][]metric.AddOption
}

func (g *guards) refusedWrite(ctx context.Context, err error) {
	g.refused.Add(alive(ctx), 1, g.why(err)...)
	event(ctx, guardRefusedEvent, tokenOf(err), err)
}

// observedWrite warns, as package guard does where nobody observes: a guard that
// lets stale writes through is never silent about it.
func (g *guards) observedWrite(ctx context.Context, err error) {
	g.observed.Add(alive(ctx), 1, g.why(err)...)
	event(ctx, guardObservedEvent, tokenOf(err), err)
	slog.WarnContext(ctx, "guard: observe-only, would have refused", "error", err)
}

func (g *guards) why(err error) []metric.AddOption {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return g.reasons[r.name]
		}
	}
	return nil
}

// tokenOf is the token that was refused, or of a missing one what is known.
func tokenOf(err error) token.Token {
	var stale *guard.StaleError
	if errors.As(err, &stale) {
		return stale.Token
	}
	var missing *token.MissingError
	if errors.As(err, &missing) {
		return token.Token{Resource: missing.Resource}
	}
	return token.Token{}
}
