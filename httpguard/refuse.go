package httpguard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fencepost/fencepost/internal/point"
)

// mountError and storeError do not unwrap: what is behind them says nothing of
// the token, whatever it says it is.
type (
	mountError struct{ err error } // the resource is not known
	storeError struct{ err error } // the store of marks failed
)

func (e *mountError) Error() string { return e.err.Error() }
func (e *storeError) Error() string { return e.err.Error() }

// report tells the observer of err and returns what is to be answered. In
// observe-only mode that is nothing, whatever err is: a store that is down
// must not take a service with it that does not yet rely on it.
func (m *Middleware) report(ctx context.Context, err error) error {
	err = m.Observer.Judge(ctx, err, m.DangerouslyObserve)
	switch {
	case err == nil, point.Observing(ctx):
		return nil
	case m.DangerouslyObserve:
		slog.WarnContext(ctx, "httpguard: observe-only, passed unjudged", "error", err)
		return nil
	}
	return err
}

// refuse answers for the middleware. It differs from Error in that no handler
// has run: whatever the store failed with, nothing was applied.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var (
		mount *mountError
		store *storeError
	)
	switch {
	case errors.As(err, &mount):
		unmounted.answer(w, r, mount.err)
	case errors.Is(err, errHeldUp):
		occupied.answer(w, r, err)
	case errors.As(err, &store):
		unjudged.answer(w, r, store.err)
	default:
		Error(w, r, err)
	}
}
