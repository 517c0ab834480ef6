package guard

import (
	"context"
	"log/slog"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// Hooks are called with the refusals of a guard. A nil field is not called. Hooks run on
// the writer's goroutine and must return quickly.
type Hooks struct {
	// Refused is called with each refusal. See [IsRefusal] for the errors.
	Refused func(ctx context.Context, err error)
	// Reported is called in report-only mode, with each refusal that the guard would have
	// made. If it is nil, [slog.Default] warns, so that a stale write that was let
	// through leaves a trace.
	Reported func(ctx context.Context, err error)
}

// Outcome is for implementations of guards. It calls the hook for err, and returns the
// error that the guard must return. In report-only mode, it returns nil for a refusal. It
// returns all other errors unchanged. A [Store] without that mode gets it if its caller
// passes the result of Admit to Outcome.
func (h Hooks) Outcome(ctx context.Context, err error, reportOnly bool) error {
	if err == nil || !IsRefusal(err) {
		return err
	}
	failpoint.Note(ctx, failpoint.Refused{Err: err})
	simulated := failpoint.IsUnguarded(ctx) // the unguarded twin of a simulation logs nothing
	switch {
	case !reportOnly && !simulated:
		if h.Refused != nil {
			h.Refused(ctx, err)
		}
		return err
	case h.Reported != nil:
		h.Reported(ctx, err)
	case !simulated:
		slog.WarnContext(ctx, "guard: report-only, would have refused", "error", err)
	}
	return nil
}
