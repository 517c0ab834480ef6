package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fencepost/fencepost/guard"
)

// admitted is called inside the window.
func (p *proxy) admitted(w http.ResponseWriter, r *http.Request) {
	e := exchangeOf(r.Context())
	r = r.WithContext(r.Context())
	r.Method = e.method
	e.request = r
	if e.body != nil { // around the Middleware's, which refuses to read on for who is told to go
		e.body = &body{ReadCloser: r.Body, left: -1}
		r.Body = e.body
	}
	if p.DangerouslyObserve {
		p.upstream.ServeHTTP(w, r)
		return
	}
	wait := newWaiting(r.Context(), p.Wait)
	defer wait.cancel(nil)
	leave, err := p.enter(wait)
	if err == nil {
		defer leave()
		err = p.work(w, r, e, wait)
	}
	if err != nil {
		p.unjudged(w, r, e, err)
	}
}

// work sends the request on, while the store holds its resources if it can. An
// error means that it was not sent.
func (p *proxy) work(w http.ResponseWriter, r *http.Request, e *exchange, wait *waiting) error {
	send := func(held context.Context) { p.send(held, w, r, e) }
	if p.store.hold != nil && e.unsafe {
		return p.store.hold(wait, e.resources, send)
	}
	if p.store.hold != nil {
		if err := p.store.claim(wait, e.resources); err != nil {
			return err
		}
	}
	if err := wait.over(); err != nil {
		return err
	}
	send(context.Background())
	return nil
}

// send returns when the upstream has answered, or has been cut off. Where the
// request may write, the client's leaving does not end it, nor does a newer
// token: an upstream whose connection is closed may go on working, and nobody
// would know for how long. Both end the reading of the body, and an upstream has
// nothing to work on before it has the whole request. A WebSocket has no answer
// to wait for.
func (p *proxy) send(held context.Context, w http.ResponseWriter, r *http.Request, e *exchange) {
	if !e.unsafe {
		p.upstream.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	if e.upgrade {
		defer context.AfterFunc(r.Context(), func() { cancel(context.Cause(r.Context())) })()
	} else {
		defer time.AfterFunc(p.Timeout, func() { cancel(errTimeout) }).Stop()
	}
	p.upstream.ServeHTTP(w, r.WithContext(ctx))
}

// enter takes a place among the requests in flight.
func (p *proxy) enter(wait context.Context) (leave func(), err error) {
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, nil
	default:
	}
	select {
	case p.places <- struct{}{}:
		return func() { <-p.places }, nil
	case <-wait.Done():
		if cause := context.Cause(wait); !errors.Is(cause, errWaited) {
			return nil, guard.WithLoss(wait, cause)
		}
		return nil, errFull
	}
}
