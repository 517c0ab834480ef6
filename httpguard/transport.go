package httpguard

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token/seal"
)

// ErrTwoSources is found where a request has a Fencing-Token field already,
// and its context carries other tokens than that.
var ErrTwoSources = errors.New("httpguard: tokens in the request and in its context differ")

// Transport is an [http.RoundTripper] that writes the tokens of the request's
// context (see [token.All]) into the field Fencing-Token. It is safe for
// concurrent use if Base is.
//
// Redirects go through it again: each request is judged by its own host.
// Tokens whose lease has been released are not sent; tokens of other resources
// are, since the receiver passes over them.
type Transport struct {
	// Base makes the requests; nil is [http.DefaultTransport]. One that sends
	// again by itself must tell an [httptrace.ClientTrace], as net/http's does: a
	// refusal of the second attempt says nothing of the first. What a proxy of its
	// own may read of a request over plain HTTP, it reads.
	Base http.RoundTripper
	// Hosts are the hosts tokens may be sent to, each written as in a URL:
	// "api.example" or "api.example:8443". They are compared whole, but for
	// the case of letters; a port that a URL does not name is not filled in,
	// and the scheme does not count. Where there are none, no token is ever
	// sent, and a guarded service will answer 428.
	Hosts []string
	// Seals seals the tokens of the leases that the context is under. Only
	// whoever issues tokens should have its keys: see package seal. Every other
	// token goes on as it came, with its seal if it has one: to seal it would be
	// to vouch for a number that nobody has checked. Who knows better, as of a
	// number that was minted, puts the seal into the context ([seal.NewContext]).
	Seals *seal.Ring
	// SealFor is how long a seal that is made for a request is valid, rounded up
	// to whole seconds: the receiver must have read the request by then, by its
	// own clock. Zero is for ever, less is an error.
	SealFor time.Duration
}

var _ http.RoundTripper = Transport{}

// RoundTrip implements [http.RoundTripper], but for one thing: the refusal of a
// named host, 412 with [ProblemStale], is an error, a [*guard.StaleError] with
// the token that was refused and no mark. So a remote refusal looks like a
// local one: errors.Is(err, guard.ErrStale) finds it also in what [http.Client]
// makes of it. Every other answer, another 412 too, is returned as it is; so is
// that to a HEAD, which has no body to say whose it is.
//
// Where an unsafe request with tokens has no answer, the error is
// [guard.ErrUnknown] beside what Base says: the receiver may have applied it. So
// is the refusal of a request that Base had sent once before, and no refusal then.
// Only of a connection that could not be made, and of a context that had ended
// before, is it known that nothing was sent.
//
// A field that the caller has set is sent as it is where the context carries no
// tokens, or the same; otherwise the error is [ErrTwoSources]. To a host that
// was not named it is not sent at all: http.Client copies fields to wherever it
// is redirected. The name of the field is known in any case of its letters, as a
// key that was not set by [http.Header.Set] can have. An incomplete token in the
// context is a [*HeaderError], and nothing is sent.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := t.prepare(req)
	if err == nil {
		err = context.Cause(req.Context()) // nothing is sent, for certain
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, also on errors
		}
		return nil, err
	}
	var attempts atomic.Int32 // Base may make several
	if writes(out) {
		out = out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
			WroteHeaders: func() { attempts.Add(1) },
		}))
	}
	resp, err := t.send(req, out)
	if err != nil {
		return nil, uncertain(out, err, attempts.Load())
	}
	if err := t.refusal(out, resp); err != nil {
		if attempts.Load() > 1 {
			err = refusedAgain(out, err)
		}
		return nil, err
	}
	return resp, nil
}

func (t Transport) send(req, out *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if !point.Listening(ctx) || point.Key(ctx) != nil { // or it is told by who is around
		return t.base().RoundTrip(out)
	}
	point.At(ctx, point.Request, req)
	defer point.At(ctx, point.Response, req)
	return t.base().RoundTrip(out.WithContext(point.Within(out.Context(), req)))
}

// CloseIdleConnections does so with Base, if Base can.
func (t Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}
