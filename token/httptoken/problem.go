package httptoken

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/fencepost/fencepost/internal/depose"
	"github.com/fencepost/fencepost/internal/httpwrite"
	"github.com/fencepost/fencepost/token"
)

const problems = "https://pkg.go.dev/github.com/fencepost/fencepost/token/httptoken#"

// The problem types of the replies (RFC 9457 §3.1.1), with their status. Each is the URL of its
// documentation here. Other refusals have the type about:blank. Those of 409, 429 and 503 have
// Retry-After. docs/errors.md says what a client does.
const (
	ProblemInvalid      = problems + "ProblemInvalid"      // 400: the path, the body or a field is malformed. The detail names the rule.
	ProblemUnauthorized = problems + "ProblemUnauthorized" // 401: the request has no bearer token that the service accepts.
	ProblemForbidden    = problems + "ProblemForbidden"    // 403: the token has no valid signature, or the sender lacks the right.
	ProblemNeverHeld    = problems + "ProblemNeverHeld"    // 404: the issuer has no record of the lock.
	ProblemHeld         = problems + "ProblemHeld"         // 409: another holder has the lock. The reply has its label, and how long its lease lasts if it is not renewed. A wait may end before its time.
	ProblemLost         = problems + "ProblemLost"         // 410: the lease has ended, or never was.
	ProblemUnguarded    = problems + "ProblemUnguarded"    // 412: the service has no guard that would refuse the deposed holder. Nothing was changed. With "unfenced": true only the lease is freed.
	ProblemBusy         = problems + "ProblemBusy"         // 429: too many requests of this credential wait.
	ProblemFailed       = problems + "ProblemFailed"       // 500: the issuer failed in a way that a repeat does not cure. The service's log has the reason.
	ProblemUnavailable  = problems + "ProblemUnavailable"  // 503: the issuer cannot be reached, or takes no writes. The request may have taken effect.
)

// problem is the body of a refusal.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Holder    string `json:"holder,omitempty"`
	Remaining *int64 `json:"remaining_ms,omitempty"`
}

func (p *problem) Error() string { return p.Title + ": " + p.Detail }

func (p problem) with(detail string) *problem {
	p.Detail = detail
	return &p
}

var (
	invalid      = &problem{ProblemInvalid, "Invalid request", 400, "", "", nil}
	unauthorized = &problem{ProblemUnauthorized, "Unauthorized", 401, "The request needs a bearer token that the service accepts.", "", nil}
	forbidden    = &problem{ProblemForbidden, "Forbidden", 403, "", "", nil}
	notFound     = &problem{"about:blank", "Not Found", 404, "", "", nil}
	neverHeld    = &problem{ProblemNeverHeld, "Never held", 404, "The issuer has no record of the lock.", "", nil}
	notAllowed   = &problem{"about:blank", "Method Not Allowed", 405, "", "", nil}
	lost         = &problem{ProblemLost, "The lease is lost", 410, "The lease has ended, or never was.", "", nil}
	unguarded    = &problem{ProblemUnguarded, "No guard", 412, "No guard would refuse the deposed holder: configure one, or send unfenced.", "", nil}
	tooLarge     = &problem{"about:blank", "Content Too Large", 413, "", "", nil}
	wrongType    = &problem{"about:blank", "Unsupported Media Type", 415, "The body must be application/json.", "", nil}
	busy         = &problem{ProblemBusy, "Too many waiters", 429, "", "", nil}
	failed       = &problem{ProblemFailed, "The issuer failed", 500, "A repeat does not help: the service's log has the reason.", "", nil}
	unsupported  = &problem{"about:blank", "Not Implemented", 501, "The issuer cannot do this.", "", nil}
	unavailable  = &problem{ProblemUnavailable, "The issuer cannot be reached", 503, "The request may have taken effect.", "", nil}
)

// problemOf returns the reply to a request that failed with err.
func problemOf(err error) *problem {
	var own *problem
	var other *token.HeldError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &other):
		left := max(other.Remaining, 0).Milliseconds()
		return &problem{ProblemHeld, "The lock is held", 409, "", depose.Label(other.Holder), &left}
	case errors.Is(err, token.ErrInvalid):
		return invalid.with(err.Error())
	case errors.Is(err, token.ErrLost):
		return lost
	case errors.Is(err, token.ErrBadSignature):
		return forbidden.with("The token has no valid signature.")
	case errors.Is(err, errors.ErrUnsupported):
		return unsupported
	case errors.Is(err, token.ErrUnreachable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable
	case errors.Is(err, token.ErrTooFarAhead): // the number of a break
		return invalid.with(err.Error())
	}
	return failed
}

// refuse writes the problem. It logs the error of a 5xx, which the reply omits.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && p != unsupported && !errors.Is(err, context.Canceled) {
		slog.ErrorContext(r.Context(), "httptoken: "+p.Title, "status", p.Status, "error", err)
	}
	if p == unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	httpwrite.Problem(w, p.Status, p)
}
