package httpguard

import (
	"errors"
	"io"
	"net/http"
)

// body is a visit as the body of its request. It is no allocation of its own.
type body visit

// Read is refused when the visit was told to go: to have read, or not, applies
// nothing. Only who is reading at that moment is interrupted on the connection;
// one whose body has been read has it in use for something else.
func (b *body) Read(p []byte) (int, error) {
	v := (*visit)(b)
	if err := v.count(+1); err != nil {
		return 0, err
	}
	n, err := b.body.Read(p)
	if stale := v.count(-1); stale != nil && err != nil && !errors.Is(err, io.EOF) {
		err = errors.Join(stale, err)
	}
	return n, err
}

// count counts who is reading, and returns a refusal if v was told to go.
func (v *visit) count(n int) error {
	v.going.Lock()
	defer v.going.Unlock()
	stale := v.dismissed()
	if n < 0 || stale == nil {
		v.reading += n
	}
	return stale
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
