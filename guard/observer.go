package guard

import (
	"context"
	"log/slog"

	"github.com/fencepost/fencepost/internal/point"
)

// Observer is told what a guard decides. Fields that are nil are passed over.
// They are called on the writer's own goroutine and must be quick.
type Observer struct {
	// Refused is called with every refusal: see [Refusal] for the errors.
	Refused func(ctx context.Context, err error)
	// Observed is called in observe-only mode with every refusal that would
	// have been. Where it is nil, [slog.Default] warns: a guard that lets
	// stale writes through is never silent about it.
	Observed func(ctx context.Context, err error)
}

// Judge is for guards: it tells the observer of err and returns what the guard
// must answer. In observe-only mode a refusal becomes nil; every other error
// is returned as it is, in both modes.
func (o Observer) Judge(ctx context.Context, err error, dangerouslyObserve bool) error {
	if err == nil || !Refusal(err) {
		return err
	}
	simulated := point.Observing(ctx) // the unguarded twin of a simulation, in which nobody is warned
	switch {
	case !dangerouslyObserve && !simulated:
		if o.Refused != nil {
			o.Refused(ctx, err)
		}
		return err
	case o.Observed != nil:
		o.Observed(ctx, err)
	case !simulated:
		slog.WarnContext(ctx, "guard: observe-only, would have refused", "error", err)
	}
	return nil
}
