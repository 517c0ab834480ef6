package httpguard

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var (
	stale = problem{Type: ProblemStale, Title: "Stale token", Status: http.StatusPreconditionFailed,
		Detail: "A newer holder has been admitted. Nothing was applied, and this token will not be admitted again."}
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
		Detail: "The write may or may not have been applied. Read the resource before sending the request again."}
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
// An error that is [context.Canceled], where the request's context was ended by
// a newer token, is ErrStale: a guard that was interrupted and is not sure says
// ErrUnknown. So is what reading the body failed with then. Where ErrNoRow means something else to the client, as in an
// update with conditions of its own, answer it before Error is asked.
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
	problemOf(explained(r, err)).answer(w, r, err)
}

// explained adds what follows from the end of the request's context, where a
// newer token has ended it: a guard that says "canceled" has applied nothing. A
// request to another service that was cut off may have done anything, also where
// its client gives the context's cause for a reason.
func explained(r *http.Request, err error) error {
	cause := context.Cause(r.Context())
	var remote *url.Error
	switch {
	case !errors.Is(cause, guard.ErrStale):
		return err
	case errors.As(err, &remote):
		if errors.Is(err, cause) || errors.Is(err, context.Canceled) {
			return errors.Join(guard.ErrUnknown, err)
		}
		return err
	case errors.Is(err, context.Canceled):
		return errors.Join(cause, err)
	}
	return err
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
