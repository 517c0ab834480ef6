package httpguard

import (
	"errors"
	"io"
	"net/http"
)

// body is a visit as the body of its request. It is no allocation of its own.
type body visit

// Read tells why it was interrupted.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := (*visit)(b).dismissed(); cause != nil {
			err = errors.Join(cause, err)
		}
	}
	return n, err
}

// Close closes the request's own body.
func (b *body) Close() error { return b.body.Close() }

// request is r for the handler: with v as its context, and its body.
func (v *visit) request(r *http.Request) *http.Request {
	r = r.WithContext(v)
	if v.body != nil {
		r.Body = (*body)(v)
	}
	return r
}
