package httpguard

import (
	"context"
	"errors"
	"net/http"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
)

// Only this file uses the simulation's switch.

// isTwin reports whether ctx belongs to the unguarded twin of a simulation, in which no
// request is refused and none waits.
func isTwin(ctx context.Context) bool { return failpoint.IsUnguarded(ctx) }

// stepAdmitted comes before the handler of r, stepReturned after it has returned. Their
// ctx may have tokens that r's context lacks.
func stepAdmitted(ctx context.Context, r *http.Request) { failpoint.At(ctx, failpoint.Admitted, r) }
func stepReturned(ctx context.Context, r *http.Request) { failpoint.At(ctx, failpoint.Response, r) }

// stepTokensUsed reports that a write is made under the tokens of ctx. token.All only
// looks at them.
func stepTokensUsed(ctx context.Context) {
	if !failpoint.Listening(ctx) {
		return
	}
	for _, tok := range token.All(ctx) {
		_, _ = token.FromContext(ctx, tok.Resource)
	}
}

// requestSteps reports that out is about to be sent; out is req or its copy. It returns
// the request to send, and a function to call when its response has arrived or cannot
// arrive any more.
func requestSteps(req, out *http.Request) (sent *http.Request, ended func()) {
	ctx := req.Context()
	if !failpoint.Listening(ctx) || isReported(ctx) {
		return out, func() {}
	}
	failpoint.At(ctx, failpoint.Request, req)
	return out.WithContext(failpoint.WithKey(out.Context(), req)), func() { failpoint.At(ctx, failpoint.Response, req) }
}

// isReported reports whether a caller above reports the steps of its request itself.
func isReported(ctx context.Context) bool { return failpoint.Key(ctx) != nil }

// dropRequest closes the body of req if a simulation prevents it from being sent, and
// returns the error for that.
func dropRequest(req *http.Request) error {
	ctx := req.Context()
	if isReported(ctx) || !failpoint.DropsCommit(ctx, req) {
		return nil
	}
	if req.Body == nil {
		return failpoint.ErrLost
	}
	return errors.Join(failpoint.ErrLost, req.Body.Close())
}

// dropResponse closes resp if a simulation drops the response to a write that was
// applied, and returns the error for that.
func dropResponse(req *http.Request, resp *http.Response) error {
	ctx := req.Context()
	if resp.StatusCode >= 300 || isReported(ctx) || !failpoint.DropsReply(ctx, req) {
		return nil
	}
	return errors.Join(failpoint.ErrLost, resp.Body.Close())
}
