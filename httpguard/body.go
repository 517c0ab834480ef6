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
//
// A body of known length ends with its last byte, which is not refused any more.
// A handler may send the request on, and then:
//
//  1. net/http's Transport writes the last byte, which the upstream waits for;
//  2. the upstream has the whole request, and applies it;
//  3. a newer token comes, and the visit is told to go;
//  4. the Transport reads once more, to see that nothing follows.
//
// A refusal in 4 would say that nothing was applied. Without a length the upstream
// hears of the end only after Read has said it, so that a refusal comes before 1.
func (b *body) Read(p []byte) (int, error) {
	v := (*visit)(b)
	if err := v.count(+1, 0); err != nil {
		return 0, err
	}
	n, err := b.body.Read(p)
	switch told := v.count(-1, n); {
	case told == nil, err == nil, errors.Is(err, io.EOF):
		return n, err
	case errors.Is(told, io.EOF): // interrupted in 4
		return n, io.EOF
	default:
		return n, errors.Join(told, err)
	}
}

// count counts who is reading, and the n bytes that were read. If v was told to
// go it returns a refusal, or [io.EOF] where the body has been read.
func (v *visit) count(readers, n int) error {
	v.going.Lock()
	defer v.going.Unlock()
	if v.unread >= 0 {
		// Below 0 it was not the length: somebody has unpacked the body, say.
		v.unread -= int64(n)
	}
	told := v.dismissed()
	if told != nil && v.unread == 0 {
		told = io.EOF
	}
	if readers < 0 || told == nil {
		v.reading += readers
	}
	return told
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
