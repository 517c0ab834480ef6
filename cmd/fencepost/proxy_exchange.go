package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// exchange is what the proxy knows of a request, for its handlers and the log.
type exchange struct {
	begun     time.Time
	method    string // as the client sent it
	request   *http.Request
	body      *body
	upgrade   bool
	unsafe    bool
	route     *route
	resources []string
	sent      atomic.Bool // to the upstream, in part at least
	err       error       // why it was refused, or failed
}

type exchangeKey struct{}

// exchangeOf returns nil for a context that is of no request.
func exchangeOf(ctx context.Context) *exchange {
	e, _ := ctx.Value(exchangeKey{}).(*exchange)
	return e
}

// noteRefusal is told by the Middleware.
func noteRefusal(ctx context.Context, err error) { exchangeOf(ctx).err = err }

// body notes why it could not be read to its end. One of a length that is known
// ends with its last byte: the upstream has all of it then, and is at work,
// while net/http's transport, which sends what it reads at once, looks for more.
// A client that breaks off at that moment, as HTTP/2 lets it, would pass for one
// that had not sent everything. (Of who is told to go then the Middleware says so.)
type body struct {
	io.ReadCloser
	left int64 // to be read; negative where that is not known
	err  atomic.Pointer[error]
}

func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		if b.left -= int64(n); b.left <= 0 {
			b.left, err = 0, io.EOF
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err.Store(&err)
	}
	return n, err
}

func (b *body) broken() error {
	if b == nil || b.err.Load() == nil {
		return nil
	}
	return *b.err.Load()
}

// answer notes the status that the client gets.
type answer struct {
	http.ResponseWriter
	status int
	whole  bool // no panic has cut it off
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}
