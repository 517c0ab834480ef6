package httpguard

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
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
	// Base makes the requests; nil is [http.DefaultTransport].
	Base http.RoundTripper
	// Hosts are the hosts tokens may be sent to, each written as in a URL:
	// "api.example" or "api.example:8443". They are compared whole, but for
	// the case of letters; a port that a URL does not name is not filled in,
	// and the scheme does not count. Where there are none, no token is ever
	// sent, and a guarded service will answer 428.
	Hosts []string
}

var _ http.RoundTripper = Transport{}

// RoundTrip implements [http.RoundTripper]. A field that the caller has set is
// sent as it is where the context carries no tokens, or the same; otherwise
// the error is [ErrTwoSources]. To a host that was not named it is not sent at
// all: http.Client copies fields to wherever it is redirected. The name of the
// field is known in any case of its letters, as a key that was not set by
// [http.Header.Set] can have. An incomplete token in the context is a
// [*HeaderError], and nothing is sent.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out, err := t.prepare(req)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must, also on errors
		}
		return nil, err
	}
	ctx := req.Context()
	if !point.Listening(ctx) || point.Key(ctx) != nil { // or it is told by who is around
		return t.base().RoundTrip(out)
	}
	point.At(ctx, point.Request, req)
	defer point.At(ctx, point.Response, req)
	return t.base().RoundTrip(out.WithContext(point.Within(ctx, req)))
}

// CloseIdleConnections does so with Base, if Base can.
func (t Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// prepare returns req itself where there is nothing to change.
func (t Transport) prepare(req *http.Request) (*http.Request, error) {
	set, has := carried(req.Header)
	if !t.named(req.URL.Host) {
		if !has {
			return req, nil
		}
		out := clone(req)
		maps.DeleteFunc(out.Header, func(key string, _ []string) bool { return isField(key) })
		return out, nil
	}
	toks := token.All(req.Context())
	if len(toks) == 0 {
		return req, nil
	}
	text, err := Format(toks...)
	switch {
	case err != nil:
		return nil, err
	case !has:
		out := clone(req)
		out.Header.Set(Header, text)
		return out, nil
	case len(set) != 1 || set[0] != text:
		return nil, fmt.Errorf("%w: %s %s", ErrTwoSources, req.Method, req.URL.Redacted())
	}
	return req, nil
}

// carried returns what is set under all the keys that are sent as the field.
func carried(header http.Header) (values []string, has bool) {
	for key, set := range header {
		if isField(key) {
			values, has = append(values, set...), true
		}
	}
	return values, has
}

func isField(key string) bool { return strings.EqualFold(key, Header) }

// named asks the URL, not req.Host: that is where the request will go.
func (t Transport) named(host string) bool {
	for _, name := range t.Hosts {
		if strings.EqualFold(name, host) {
			return true
		}
	}
	return false
}

func (t Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func clone(req *http.Request) *http.Request {
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	return out
}
