package httpguard

import (
	"context"
	"errors"
	"net/http"

	"github.com/fencepost/fencepost/httpguard/signature"
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

// stepTokensUsed reports that a write is made under tokens of ctx. token.All only looks at
// them.
func stepTokensUsed(ctx context.Context, tokens []signature.Signed) {
	if !failpoint.Listening(ctx) {
		return
	}
	for _, s := range tokens {
		_, _ = token.FromContext(ctx, s.Token.Resource)
	}
}

// simulated returns base, or one that reports the request made for req to a simulation.
func simulated(base http.RoundTripper, req *http.Request, writes bool) http.RoundTripper {
	ctx := req.Context()
	if !failpoint.Listening(ctx) || failpoint.Key(ctx) != nil { // a caller above reports its steps itself
		return base
	}
	return steps{base, req, writes}
}

// steps reports that the request is about to be sent, and that its response has arrived or
// cannot arrive any more. The simulation may drop a write, or the response to one that was
// applied.
type steps struct {
	base   http.RoundTripper
	req    *http.Request // the caller's
	writes bool
}

func (s steps) RoundTrip(out *http.Request) (*http.Response, error) {
	ctx := s.req.Context()
	failpoint.At(ctx, failpoint.Request, s.req)
	defer failpoint.At(ctx, failpoint.Response, s.req)
	if s.writes && failpoint.DropsCommit(ctx, s.req) {
		if out.Body != nil {
			_ = out.Body.Close() // required of a RoundTripper, also on errors
		}
		return nil, failpoint.ErrLost
	}
	resp, err := s.base.RoundTrip(out.WithContext(failpoint.WithKey(out.Context(), s.req)))
	if err == nil && s.writes && resp.StatusCode < 300 && failpoint.DropsReply(ctx, s.req) {
		return nil, errors.Join(failpoint.ErrLost, resp.Body.Close())
	}
	return resp, err
}
