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
	guardReportedEvent = "fencepost.guard.reported"
)

// GuardHooks returns the hooks of a guard, such as a sqlguard.Guard or a
// redisguard.Guard. Any number of guards may share them. For errors see [Hooks].
// [Config.Kinds] does not apply, since a refused writer may have no resource.
func GuardHooks(c Config) (guard.Hooks, error) {
	m := &maker{meter: c.meter()}
	g := &guards{
		refused:  m.counter("guard.refused", "{write}", "Writes that a guard refused."),
		reported: m.counter("guard.reported", "{write}", "Writes that a guard would have refused, and let pass."),
		reasons:  map[string][]metric.AddOption{},
	}
	if err := m.err(); err != nil {
		return guard.Hooks{}, err
	}
	for _, r := range refusals {
		g.reasons[r.name] = []metric.AddOption{metric.WithAttributes(reasonKey.String(r.name))}
	}
	return guard.Hooks{Refused: g.refusedWrite, Reported: g.reportedWrite}, nil
}

// guards has the instruments of guards.
type guards struct {
	refused, reported metric.Int64Counter
	reasons           map[string][]metric.AddOption
}

func (g *guards) refusedWrite(ctx context.Context, err error) {
	g.refused.Add(alive(ctx), 1, g.why(err)...)
	event(ctx, guardRefusedEvent, tokenOf(err), err)
}

// reportedWrite also logs a warning, as package guard does without hooks: every stale
// write that a guard lets pass is logged.
func (g *guards) reportedWrite(ctx context.Context, err error) {
	g.reported.Add(alive(ctx), 1, g.why(err)...)
	event(ctx, guardReportedEvent, tokenOf(err), err)
	slog.WarnContext(ctx, "guard: report-only, would have refused", "error", err)
}

func (g *guards) why(err error) []metric.AddOption {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return g.reasons[r.name]
		}
	}
	return nil
}

// tokenOf returns the token that was refused, or the resource if the token is missing.
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
