package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// problem is an answer of the proxy's own, in the form of the Middleware's.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

const nothing = " Nothing was applied."

var (
	errScreened  = problem{"about:blank", "Bad Request", http.StatusBadRequest, "Servers could take this request for another one."}
	errAmbiguous = problem{httpguard.ProblemMalformed, "Ambiguous path", http.StatusBadRequest, "Servers could read this path in two ways."}
	errTooLarge  = problem{"about:blank", "Content Too Large", http.StatusRequestEntityTooLarge, "The body is longer than this proxy lets through." + nothing}
	errBroken    = problem{"about:blank", "Bad Request", http.StatusBadRequest, "The body ended before its end." + nothing}

	errBusy     = problem{httpguard.ProblemUnavailable, "Older requests in flight", http.StatusServiceUnavailable, "Requests of an older holder have not ended yet." + nothing + " The same request may be sent again."}
	errCrowded  = problem{httpguard.ProblemUnavailable, "Too many requests in flight", http.StatusServiceUnavailable, "The proxy has too many requests in flight." + nothing + " The same request may be sent again."}
	errUnjudged = problem{httpguard.ProblemUnavailable, "Token could not be judged", http.StatusServiceUnavailable, "The store of marks did not answer." + nothing + " The same request may be sent again."}

	errNoUpstream = problem{"about:blank", "Bad Gateway", http.StatusBadGateway, "The service cannot be reached." + nothing}
	errNoAnswer   = problem{"about:blank", "Bad Gateway", http.StatusBadGateway, "The service did not answer properly."}
	errSlow       = problem{"about:blank", "Gateway Timeout", http.StatusGatewayTimeout, "The service did not answer in time."}
)

// unknown is p for a request that may have written.
func (p problem) unknown() problem {
	p.Type = httpguard.ProblemUnknown
	p.Detail += " The write may or may not have been applied, or may still be. Acquire again, claim, and read before deciding."
	return p
}

// answer writes p, and has err logged.
func (p problem) answer(w http.ResponseWriter, e *exchange, err error) {
	e.err = err
	body, _ := json.Marshal(p) // strings and an int: it cannot fail
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	switch p.Status {
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	case http.StatusRequestEntityTooLarge:
		header.Set("Connection", "close") // or the rest would be read
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}

// refuses answers with pr, whose detail is err's, unless the proxy only observes.
func (p *proxy) refuses(w http.ResponseWriter, e *exchange, pr problem, err error) bool {
	if p.DangerouslyObserve {
		p.log.observed(context.WithValue(context.Background(), exchangeKey{}, e), err)
		return false
	}
	pr.Detail = fmt.Sprintf("%s In this one %s.%s", pr.Detail, err, nothing)
	pr.answer(w, e, err)
	return true
}

// unjudged answers a request that was not sent on.
func (p *proxy) unjudged(w http.ResponseWriter, r *http.Request, e *exchange, err error) {
	switch {
	case guard.Refusal(err):
		e.err = err
		httpguard.Error(w, r, err)
	case errors.Is(err, errFull):
		errCrowded.answer(w, e, err)
	case errors.Is(err, errWaited):
		errBusy.answer(w, e, err)
	default:
		errUnjudged.answer(w, e, err)
	}
}
