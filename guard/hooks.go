package guard

import (
	"context"
	"log/slog"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
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
// returns all other errors unchanged.
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

// DangerouslyReportOnly compares each token with the marks of Store and reports refusals
// to Hooks, but refuses nothing. Use it in the first days of a roll-out, or for the
// unguarded twin of a test. It returns errors that are not refusals.
type DangerouslyReportOnly struct {
	// Store keeps the marks. It is required.
	Store Store
	// Hooks are called with the refusals. If Reported is nil, they are logged.
	Hooks Hooks
}

var _ Identified = DangerouslyReportOnly{}

// Admit raises the mark if Store admits the token. It returns nil for a refusal.
func (d DangerouslyReportOnly) Admit(ctx context.Context, tok token.Token) error {
	return d.Hooks.Outcome(ctx, d.Store.Admit(ctx, tok), true)
}

// Identity implements [Identified]. It returns the identity of Store, or Store itself if
// it has none.
func (d DangerouslyReportOnly) Identity() any {
	if store, ok := d.Store.(Identified); ok {
		return store.Identity()
	}
	return d.Store
}
