package httppoint

import (
	"net/http"

	"github.com/fencepost/fencepost/internal/point"
)

// Header is the field that carries the id of a simulation.
const Header = "Fencepost-Simulation"

// Transport is an [http.RoundTripper] that is held up before a request is sent
// and when its answer has arrived (or the error in its place), and that has the
// request carry the id which [Handler] knows. A request whose context is part
// of no simulation goes to Base as it is. It is safe for concurrent use if Base
// is.
type Transport struct {
	// Base makes the requests; nil is [http.DefaultTransport].
	Base http.RoundTripper
}

var _ http.RoundTripper = Transport{}

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	id := point.Export(ctx)
	if id == "" {
		return t.base().RoundTrip(req)
	}
	out := req.Clone(ctx)
	out.Header.Set(Header, id)
	if point.Key(ctx) != nil { // httpguard.Transport tells of it
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

func (t Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}
