package httpguard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/token"
)

const problems = "https://pkg.go.dev/github.com/fencepost/fencepost/httpguard#"

// The problem types of the responses (RFC 9457 §3.1.1). Clients compare them as strings.
// Each is the URL of its documentation below.
const (
	// ProblemMissing (428): the request has no token of its resource. Acquire the
	// resource's lock and send its token.
	ProblemMissing = problems + "ProblemMissing"
	// ProblemMalformed (400): the field Fencing-Token or Idempotency-Key, or the name of
	// the resource, is malformed. The detail names the rule that it breaks.
	ProblemMalformed = problems + "ProblemMalformed"
	// ProblemStale (412): a newer holder has acquired the resource. Nothing was applied:
	// stop, acquire again, and read again. A collision gives the same type, because a
	// type of its own would reveal the mark's number.
	ProblemStale = problems + "ProblemStale"
	// ProblemBadSignature (403): the service accepts only signed tokens, and this token's
	// signature is missing, wrong or expired, or was made with a key that the service
	// does not have. Nothing was applied. Acquire again from an issuer that signs; the
	// old token's key may have been rotated out.
	ProblemBadSignature = problems + "ProblemBadSignature"
	// ProblemUnavailable (503, with Retry-After): the store of marks failed, older
	// requests on the resource are still in their handlers, or the write's transaction
	// was rolled back because of a conflict or a lost connection. Nothing was applied; the
	// same request may be retried.
	ProblemUnavailable = problems + "ProblemUnavailable"
	// ProblemUnknown (500): the write was sent, and its outcome was not received. It may
	// have been applied, or may still be applied later. Acquire and claim again, and read
	// under the new token, before you send anything again.
	ProblemUnknown = problems + "ProblemUnknown"
	// ProblemUnknownResource (500): the service could not determine the resource of the
	// request. Nothing was applied. See [Middleware.Resources].
	ProblemUnknownResource = problems + "ProblemUnknownResource"
	// ProblemKeyMissing (400): the request has no Idempotency-Key. Nothing was applied.
	// Send the request with a key, and repeat it with the same one.
	ProblemKeyMissing = problems + "ProblemKeyMissing"
	// ProblemInProgress (409, with Retry-After): the first request with this key is still
	// running, and its outcome is not known yet. This request applied nothing. Send it
	// again, with the same key.
	ProblemInProgress = problems + "ProblemInProgress"
	// ProblemKeyReused (422): the key was used with another request, for example with
	// another body. This request applied nothing. Give each piece of work a key of its
	// own.
	ProblemKeyReused = problems + "ProblemKeyReused"
)

// problem is the body of a response. Its only number is the status, which RFC 9457
// requires: JSON parsers round large numbers, so token numbers are left out.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Resource string `json:"resource,omitempty"`
}

// answer writes p. For a 5xx it logs err, which the response omits.
func (p problem) answer(w http.ResponseWriter, r *http.Request, err error) {
	if p.Status >= http.StatusInternalServerError && !gone(r, err) {
		slog.ErrorContext(r.Context(), "httpguard: "+p.Title, "status", p.Status, "error", err)
	}
	httpwrite.Problem(w, p.Status, p)
}

// gone reports whether err only means that the client has disconnected.
func gone(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil
}

var (
	stale = problem{Type: ProblemStale, Title: "Stale token", Status: http.StatusPreconditionFailed,
		Detail: "A newer holder has acquired the resource. Nothing was applied: acquire again, and read again."}
	missing = problem{Type: ProblemMissing, Title: "Token required", Status: http.StatusPreconditionRequired,
		Detail: "The request needs a token of the resource, in the field " + Header + ". Nothing was applied."}
	unsigned = problem{Type: ProblemBadSignature, Title: "Signature required", Status: http.StatusForbidden,
		Detail: "The token needs a valid signature of its issuer. Nothing was applied."}
	malformed = problem{Type: ProblemMalformed, Title: "Malformed token", Status: http.StatusBadRequest,
		Detail: "A token or the name of a resource is incomplete or malformed. Nothing was applied."}
	busy = problem{Type: ProblemUnavailable, Title: "Conflict or lost commit", Status: http.StatusServiceUnavailable,
		Detail: "A concurrent write was in the way, or the transaction was rolled back. Nothing was applied; the same request may be sent again."}
	unavailable = problem{Type: ProblemUnavailable, Title: "Token was not checked", Status: http.StatusServiceUnavailable,
		Detail: "The store of marks failed. Nothing was applied; the same request may be sent again."}
	occupied = problem{Type: ProblemUnavailable, Title: "Older requests in flight", Status: http.StatusServiceUnavailable,
		Detail: "Requests of an older holder are still in flight. Nothing was applied; the same request may be sent again."}
	noRow = problem{Type: "about:blank", Title: "Not Found", Status: http.StatusNotFound,
		Detail: "The row to write does not exist, or does not meet the write's condition. Nothing was applied."}
	keyReused = problem{Type: ProblemKeyReused, Title: "Key reused", Status: http.StatusUnprocessableEntity,
		Detail: "The key of this work was used with other arguments. This request applied nothing."}
	keyMissing = problem{Type: ProblemKeyMissing, Title: "Key required", Status: http.StatusBadRequest,
		Detail: "The request needs the field " + keyHeader + ". Nothing was applied."}
	inProgress = problem{Type: ProblemInProgress, Title: "Request in progress", Status: http.StatusConflict,
		Detail: "The first request with this key is still running. This request applied nothing; it may be sent again, with the same key."}
	bodyTooLarge = problem{Type: "about:blank", Title: "Content Too Large", Status: http.StatusRequestEntityTooLarge,
		Detail: "The request's body is too long. Nothing was applied."}
	bodyUnread = problem{Type: "about:blank", Title: "Bad Request", Status: http.StatusBadRequest,
		Detail: "The request's body could not be read. Nothing was applied."}
	unknown = problem{Type: ProblemUnknown, Title: "Outcome unknown", Status: http.StatusInternalServerError,
		Detail: "The write may have been applied, or may still be applied. Acquire again, claim, and read before you decide."}
	unknownResource = problem{Type: ProblemUnknownResource, Title: "Resource not known", Status: http.StatusInternalServerError,
		Detail: "The service could not determine the resource of this request. Nothing was applied." +
			" Another token does not help: the service's log has the reason."}
	failed = problem{Type: "about:blank", Title: "Internal Server Error", Status: http.StatusInternalServerError}
)

// Error responds to a request with the error of a guarded write, as [Middleware] does, so
// that a client need not distinguish the two:
//
//	guard.ErrUnknown                     500  ProblemUnknown, whatever else err is
//	guard.ErrStale, guard.ErrCollision   412  ProblemStale
//	token.ErrMissing                     428  ProblemMissing
//	token.ErrBadSignature                403  ProblemBadSignature
//	token.ErrInvalid                     400  ProblemMalformed
//	guard.ErrRetryable, ErrEvicted       503  ProblemUnavailable, with Retry-After
//	guard.ErrRowNotFound                 404  about:blank
//	guard.ErrKeyReused                   422  ProblemKeyReused
//	anything else, nil too               500  about:blank
//
// If a newer token has cancelled the request's context, an error that is
// [context.Canceled] or the context's cause gives ProblemUnknown too: a driver's
// statement, or a request to another service, may still be executed. An error of this
// module's guards, and one from reading the request's body, keeps its row of the table.
//
// "Nothing was applied" refers to the write that returned err. If the handler has already
// made another write outside of that transaction, it must respond itself.
//
// If ErrRowNotFound has another meaning for the client, as in an update with its own
// conditions, respond to it before calling Error.
//
// guard.ErrClaimFirst and token.ErrReleased give the last row, 500: they are mistakes in
// the service's use of its own leases and transactions, which the client cannot correct.
// Tokens from a request have no lease.
//
// The response names the resource if err does, and never the mark. For a 5xx, the error
// is logged to [log/slog.Default] and left out of the response. Call Error before
// anything is written to w; it removes header fields that described another response.
func Error(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if interrupted(r, err) {
		p = unknown
	}
	p.answer(w, r, err)
}

// interrupted reports whether err only means that a newer token has cancelled the
// request's context. A driver or HTTP client then returns while its statement or request
// may still be executed, so the outcome is unknown. A guard that knows the outcome has
// joined a refusal to its error.
func interrupted(r *http.Request, err error) bool {
	var dismissed *guard.DismissedError
	if errors.As(err, &dismissed) {
		return !guard.IsRefusal(err)
	}
	return errors.Is(err, context.Canceled) && errors.As(context.Cause(r.Context()), &dismissed) && !guard.IsRefusal(err)
}

// problemOf checks for ErrUnknown first: every other problem states or suggests that
// nothing was applied.
func problemOf(err error) problem {
	switch {
	case errors.Is(err, guard.ErrUnknown):
		return unknown
	case errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrCollision):
		return stale.about(err)
	case errors.Is(err, token.ErrMissing):
		return missing.about(err)
	case errors.Is(err, token.ErrBadSignature):
		return unsigned
	case errors.Is(err, token.ErrInvalid):
		return malformed.about(err)
	case errors.Is(err, guard.ErrRetryable), errors.Is(err, guard.ErrEvicted):
		return busy
	case errors.Is(err, guard.ErrRowNotFound):
		return noRow
	case errors.Is(err, guard.ErrKeyReused):
		return keyReused
	}
	return failed
}

// about adds to p what err contains about the request, and nothing about the mark.
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

// resourceError and storeError have no Unwrap: an error from Resources or a Store must
// not be classified as one of the token, even if it wraps token.ErrMissing or
// guard.ErrStale.
type (
	resourceError struct{ err error } // the resource is not known
	storeError    struct{ err error } // the store of marks failed
)

func (e *resourceError) Error() string { return e.err.Error() }
func (e *storeError) Error() string    { return e.err.Error() }

// refuse responds for the middleware. Unlike with Error no handler has run, so nothing
// was applied, whatever the store's error is.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var (
		mount *resourceError
		store *storeError
	)
	switch {
	case errors.As(err, &mount):
		unknownResource.answer(w, r, mount.err)
	case errors.Is(err, errWaitTimeout):
		occupied.answer(w, r, err)
	case errors.As(err, &store):
		unavailable.answer(w, r, store.err)
	default:
		Error(w, r, err)
	}
}
