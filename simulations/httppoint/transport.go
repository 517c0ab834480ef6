package httppoint

import (
	"errors"
	"net/http"
	"slices"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// Header is the name of the field that carries the id of a simulation.
const Header = "Fencepost-Simulation"

// Transport is an [http.RoundTripper] that blocks before a request is sent, and again
// when its response or error has arrived, until the simulation lets it continue. It adds
// the id that [Handler] reads. A request whose context belongs to no simulation is passed
// to Base unchanged. It is safe for concurrent use if Base is.
type Transport struct {
	// Base makes the requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper
}

var _ http.RoundTripper = Transport{}

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	id := failpoint.Export(ctx)
	if id == "" {
		return t.base().RoundTrip(req)
	}
	out := req.Clone(ctx)
	out.Header.Set(Header, id)
	if failpoint.Key(ctx) != nil { // httpguard.Transport reports the steps
		failpoint.Note(ctx, failpoint.Sent{Driver: "HTTP", Key: failpoint.Key(ctx), SQL: req.Method})
		return t.base().RoundTrip(out)
	}
	failpoint.At(ctx, failpoint.Request, req)
	defer failpoint.At(ctx, failpoint.Response, req)
	failpoint.Note(ctx, failpoint.Sent{Driver: "HTTP", Key: req, SQL: req.Method})
	if !reads(req.Method) && failpoint.DropsCommit(ctx, req) {
		if req.Body != nil {
			_ = req.Body.Close() // required of a RoundTripper, also on errors
		}
		return nil, failpoint.ErrLost
	}
	resp, err := t.base().RoundTrip(out.WithContext(failpoint.WithKey(ctx, req)))
	if err == nil && resp.StatusCode < 300 && !reads(req.Method) && failpoint.DropsReply(ctx, req) {
		return nil, errors.Join(failpoint.ErrLost, resp.Body.Close())
	}
	return resp, err
}

// reads reports whether method is safe (RFC 9110 §9.2.1).
func reads(method string) bool {
	return slices.Contains([]string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}, method)
}

// CloseIdleConnections calls Base's method of the same name, if Base has one.
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
