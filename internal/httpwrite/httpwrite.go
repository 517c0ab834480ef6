// Package httpwrite classifies HTTP requests that may write, and sends a request only
// once.
//
// net/http's Transport repeats some requests by itself and returns the second answer:
//
//   - Over HTTP/1.1, a request with an Idempotency-Key or X-Idempotency-Key field, if a
//     reused connection breaks.
//   - Over HTTP/2, every request whose body it can read again, if the stream is reset
//     with PROTOCOL_ERROR.
//
// The first request may have been applied by then. A request of which nothing was
// written to the connection is still sent again: it cannot have been applied.
package httpwrite

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"

	"github.com/fencepost/fencepost/internal/writectx"
)

// IsSafe reports whether a request with this method does not write: GET, HEAD, OPTIONS
// and TRACE (RFC 9110 §9.2.1). The comparison is case-sensitive, as methods are (§9.1).
func IsSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// ErrSent is returned instead of a second attempt.
var ErrSent = errors.New("the request was sent, the connection failed, and it is not sent again")

// SendOnce sends req through base in one attempt. If net/http would repeat the failed
// request over HTTP/2, the error is ErrSent; otherwise it is base's. attempts is how
// often base wrote the header: a base other than net/http's may still repeat requests.
//
// req's context ends the request, except that the loss or release of the lease ends it
// with a delay: see package writectx.
func SendOnce(base http.RoundTripper, req *http.Request) (resp *http.Response, attempts int, err error) {
	ctx, cancel := writectx.WithCancelCause(req.Context())
	var sent atomic.Bool // by HTTP/2, at least in part
	var headers atomic.Int32
	out := req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(name string, _ []string) {
			if strings.HasPrefix(name, ":") { // HTTP/1.1 has no such fields
				sent.Store(true)
			}
		},
		WroteHeaders: func() { headers.Add(1) },
		// GotConn is called before any part of an attempt is written. If the context has
		// ended, nothing is written.
		GotConn: func(httptrace.GotConnInfo) {
			if sent.Load() {
				cancel(ErrSent)
			}
		},
	}))
	if body := req.GetBody; body != nil {
		out.GetBody = func() (io.ReadCloser, error) {
			if sent.Load() {
				return nil, ErrSent
			}
			return body()
		}
	}
	out.Header = withoutKeys(req.Header)
	resp, err = base.RoundTrip(out)
	attempts = int(headers.Load())
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrSent) {
			err = ErrSent
		}
		cancel(nil)
		return nil, attempts, err
	}
	resp.Request = req
	resp.Body = ending(resp.Body, cancel)
	return resp, attempts, nil
}

// withoutKeys returns header with the fields that make net/http repeat a request in a
// spelling that net/http does not recognize. Names of fields are case-insensitive (RFC
// 9110 §5.1).
func withoutKeys(header http.Header) http.Header {
	copied := false
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		values, has := header[name]
		if !has {
			continue
		}
		if !copied {
			header, copied = header.Clone(), true
		}
		delete(header, name)
		key := strings.ToLower(name)
		header[key] = append(header[key], values...)
	}
	return header
}

// ending returns body, and ends the request's context when that is closed. The body of an
// upgraded connection (101) can also be written to.
func ending(body io.ReadCloser, cancel context.CancelCauseFunc) io.ReadCloser {
	if conn, ok := body.(io.ReadWriteCloser); ok {
		return &closingConn{conn, cancel}
	}
	return &closing{body, cancel}
}

type closing struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

func (c *closing) Close() error {
	defer c.cancel(nil)
	return c.ReadCloser.Close()
}

type closingConn struct {
	io.ReadWriteCloser
	cancel context.CancelCauseFunc
}

func (c *closingConn) Close() error {
	defer c.cancel(nil)
	return c.ReadWriteCloser.Close()
}
