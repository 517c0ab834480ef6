package httpguard

import (
	"context"
	"errors"
	"net/http"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var (
	stale = problem{Type: ProblemStale, Title: "Stale token", Status: http.StatusPreconditionFailed,
		Detail: "A newer holder has come. Nothing was applied: acquire again, and read again."}
	missing = problem{Type: ProblemMissing, Title: "Token required", Status: http.StatusPreconditionRequired,
		Detail: "The request needs a token of the resource, in the field " + Header + ". Nothing was applied."}
	unsealed = problem{Type: ProblemSeal, Title: "Seal required", Status: http.StatusForbidden,
		Detail: "The token needs a valid seal of its issuer. Nothing was applied."}
	malformed = problem{Type: ProblemMalformed, Title: "Malformed token", Status: http.StatusBadRequest,
		Detail: "A token or the name of a resource is incomplete or malformed. Nothing was applied."}
	busy = problem{Type: ProblemUnavailable, Title: "Concurrent transaction", Status: http.StatusServiceUnavailable,
		Detail: "A concurrent transaction was in the way. Nothing was applied; the same request may be sent again."}
	unjudged = problem{Type: ProblemUnavailable, Title: "Token could not be judged", Status: http.StatusServiceUnavailable,
		Detail: "The store of marks did not answer. Nothing was applied; the same request may be sent again."}
	occupied = problem{Type: ProblemUnavailable, Title: "Older requests in flight", Status: http.StatusServiceUnavailable,
		Detail: "Requests of an older holder have not ended yet. Nothing was applied; the same request may be sent again."}
	noRow = problem{Type: "about:blank", Title: "Not Found", Status: http.StatusNotFound,
		Detail: "The row that was to be written is not there, or not as the write wants it. Nothing was applied."}
	unknown = problem{Type: ProblemUnknown, Title: "Outcome unknown", Status: http.StatusInternalServerError,
		Detail: "The write may or may not have been applied, or may still be. Acquire again, claim, and read before deciding."}
	unmounted = problem{Type: ProblemMount, Title: "Resource not known", Status: http.StatusInternalServerError,
		Detail: "The service cannot tell which resource this request is about. Mount the httpguard middleware" +
			" around the handler of a route, where the path has been matched, not around the router." +
			" Nothing was applied."}
	failed = problem{Type: "about:blank", Title: "Internal Server Error", Status: http.StatusInternalServerError}
)

// Error answers a request with the error of a guarded write, in the words that
// [Middleware] uses, so that a client need not know which of the two refused:
//
//	guard.ErrUnknown                     500  ProblemUnknown, whatever else err is
//	guard.ErrStale, guard.ErrCollision   412  ProblemStale
//	token.ErrMissing                     428  ProblemMissing
//	token.ErrSeal                        403  ProblemSeal
//	token.ErrInvalid                     400  ProblemMalformed
//	guard.ErrRetryable, ErrEvicted       503  ProblemUnavailable, with Retry-After
//	guard.ErrNoRow                       404  about:blank
//	anything else, nil too               500  about:blank
//
// Where a newer token has ended the request's context, an error that is
// [context.Canceled] or the context's cause is ErrUnknown too, unless it comes from
// a guard of this module, or from reading the body: a driver's statement, or a
// request to another service, may still be carried out.
//
// "Nothing was applied" is said of the write that err is from. A handler that has
// made another one before, outside of the same transaction, must say so itself.
//
// Where ErrNoRow means something else to the client, as in an update with
// conditions of its own, answer it before Error is asked.
//
// guard.ErrClaimFirst and token.ErrReleased are among the last: they are
// mistakes in the service, about a lease or a transaction of its own, and
// nothing a caller could mend (tokens from a request have no lease).
//
// The answer names the resource where err does, and never the mark. Of the
// errors behind a 5xx the client reads nothing; they go to [log/slog.Default].
// Nothing must have been written to w before; headers that described another
// answer are removed.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if interrupted(r, err) {
		p = unknown
	}
	p.answer(w, r, err)
}

// interrupted reports whether err says no more than that a newer token has ended
// the request's context. Drivers leave a statement behind then, and clients a
// request, and either may still be carried out; only a guard that knows better
// has joined a refusal.
func interrupted(r *http.Request, err error) bool {
	var dismissed *guard.DismissedError
	if errors.As(err, &dismissed) {
		return !guard.Refusal(err)
	}
	return errors.Is(err, context.Canceled) && errors.As(context.Cause(r.Context()), &dismissed) && !guard.Refusal(err)
}

// problemOf looks for ErrUnknown first: every other problem says or suggests
// that nothing was applied.
func problemOf(err error) problem {
	switch {
	case errors.Is(err, guard.ErrUnknown):
		return unknown
	case errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrCollision):
		return stale.about(err)
	case errors.Is(err, token.ErrMissing):
		return missing.about(err)
	case errors.Is(err, token.ErrSeal):
		return unsealed
	case errors.Is(err, token.ErrInvalid):
		return malformed.about(err)
	case errors.Is(err, guard.ErrRetryable), errors.Is(err, guard.ErrEvicted):
		return busy
	case errors.Is(err, guard.ErrNoRow):
		return noRow
	}
	return failed
}

// about adds what err says of the request, and nothing it says of the mark.
func (p problem) about(err error) problem {
	var (
		staleErr   *guard.StaleError
		missingErr *token.MissingError
		headerErr  *HeaderError
	)
	switch {
	case errors.As(err, &staleErr):
		p.Resource = staleErr.Token.Resource
	case errors.As(err, &missingErr):
		p.Resource = missingErr.Resource
	case errors.As(err, &headerErr):
		p.Detail = Header + ": " + headerErr.fault() + ". Nothing was applied."
	}
	return p
}
