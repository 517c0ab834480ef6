package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// problem is an answer that the proxy itself gives, in the form of the Middleware's.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

const nothingApplied = " Nothing was applied."

var (
	problemRequest        = problem{"about:blank", "Bad Request", http.StatusBadRequest, "Servers could read this request as another one."}
	problemPath           = problem{httpguard.ProblemMalformed, "Ambiguous path", http.StatusBadRequest, "Servers could read this path in two ways."}
	problemTooLarge       = problem{"about:blank", "Content Too Large", http.StatusRequestEntityTooLarge, "The body is longer than this proxy accepts." + nothingApplied}
	problemRequestTimeout = problem{"about:blank", "Request Timeout", http.StatusRequestTimeout, "The request was not complete in time." + nothingApplied}
	problemIncomplete     = problem{"about:blank", "Bad Request", http.StatusBadRequest, "The body is incomplete." + nothingApplied}

	problemOlderInFlight = problem{httpguard.ProblemUnavailable, "Older requests in flight", http.StatusServiceUnavailable, "Requests of an older holder have not ended yet." + nothingApplied + " The same request may be sent again."}
	problemTooMany       = problem{httpguard.ProblemUnavailable, "Too many requests in flight", http.StatusServiceUnavailable, "The proxy has too many requests in flight." + nothingApplied + " The same request may be sent again."}
	problemStore         = problem{httpguard.ProblemUnavailable, "Token was not checked", http.StatusServiceUnavailable, "The store of marks did not answer." + nothingApplied + " The same request may be sent again."}

	problemUnreachable    = problem{"about:blank", "Bad Gateway", http.StatusBadGateway, "The service cannot be reached." + nothingApplied}
	problemBadGateway     = problem{"about:blank", "Bad Gateway", http.StatusBadGateway, "The service did not answer properly."}
	problemGatewayTimeout = problem{"about:blank", "Gateway Timeout", http.StatusGatewayTimeout, "The service did not answer in time."}
)

// unknown returns p for a request that may have written.
func (p problem) unknown() problem {
	p.Type = httpguard.ProblemUnknown
	p.Detail += " The write may or may not have been applied, or may still be. Acquire again, claim, and read before deciding."
	return p
}

// write writes p, and records err for the log.
func (p problem) write(w http.ResponseWriter, st *requestState, err error) {
	st.err = err
	body, _ := json.Marshal(p) // strings and an int: it cannot fail
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	switch p.Status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
		if st.body != nil && st.request.ProtoMajor == 1 && st.body.ended() == nil {
			header.Set("Connection", "close") // otherwise a client that stops in its body would get no answer
		}
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout, http.StatusGatewayTimeout:
		header.Set("Connection", "close") // otherwise the rest would be read; see also timeLimit
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// refuses answers with pr and err, unless the proxy is report-only.
func (p *proxy) refuses(w http.ResponseWriter, st *requestState, pr problem, err error) bool {
	if p.DangerouslyReportOnly {
		p.log.reported(context.WithValue(context.Background(), stateKey{}, st), err)
		return false
	}
	pr.Detail = fmt.Sprintf("%s In this one %s.%s", pr.Detail, err, nothingApplied)
	pr.write(w, st, err)
	return true
}

// notSent answers a request that was not sent to the upstream.
func (p *proxy) notSent(w http.ResponseWriter, r *http.Request, st *requestState, err error) {
	switch {
	case guard.IsRefusal(err):
		st.err = err
		httpguard.Error(w, r, err)
	case errors.Is(err, errFull):
		problemTooMany.write(w, st, err)
	case errors.Is(err, errWaitTimeout):
		problemOlderInFlight.write(w, st, err)
	default:
		if st.clientGone = errors.Is(context.Cause(r.Context()), context.Canceled); !st.clientGone {
			p.log.metrics.storeFailed(st)
		}
		problemStore.write(w, st, err)
	}
}
