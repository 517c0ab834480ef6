package httpguard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard/signature"
	"github.com/fencepost/fencepost/token"
)

// request is a request with tokens, from reading the field until the handler has returned.
type request struct {
	ctx      context.Context // of the handler: it carries the tokens, and ends with cancel
	cancel   context.CancelCauseFunc
	w        http.ResponseWriter
	signed   []signature.Signed // the tokens of the field
	slots    []slot
	inFlight *InFlight // nil if the request has not entered one
	owner    any       // separates its queues from those of other handlers that share InFlight
	body     body

	mu            sync.Mutex // held while the connection's deadlines are set
	dismissed     bool       // a newer token has cancelled it
	finished      bool       // the handler has returned
	disturbed     bool       // the read deadline was set to end reads
	writeDeadline time.Time  // when writes of the response fail

	// These are part of the request's own allocation, which saves one for each.
	oneSlot [1]slot
	inner   http.Request
}

func newRequest(w http.ResponseWriter, r *http.Request, owner any) *request {
	req := &request{w: w, owner: owner}
	req.ctx, req.cancel = context.WithCancelCause(r.Context())
	// A length of 0 with a body is unknown too: net/http's clients write it.
	req.body = body{request: req, unread: r.ContentLength, known: r.ContentLength > 0}
	if r.Body != http.NoBody {
		req.body.ReadCloser = r.Body
	}
	return req
}

// read parses the field's lines and adds the tokens to the context. The signature of a
// token is added too, even without a Keyring to verify it.
func (req *request) read(lines []string) error {
	signed, err := ParseSigned(lines)
	if err != nil {
		return err
	}
	req.signed = signed
	for i := range signed {
		if signed[i].Key == "" {
			req.ctx = token.NewContext(req.ctx, signed[i].Token)
		} else {
			req.ctx = signature.NewContext(req.ctx, signed[i])
		}
	}
	return nil
}

// find returns the request's token of resource, or nil.
func (req *request) find(resource string) *signature.Signed {
	for i := range req.signed {
		if req.signed[i].Token.Resource == resource {
			return &req.signed[i]
		}
	}
	return nil
}

// forHandler returns r with req's context and body, for the handler.
func (req *request) forHandler(r *http.Request) *http.Request {
	req.inner = *r.WithContext(req.ctx)
	if req.body.ReadCloser != nil {
		req.inner.Body = &req.body
	}
	return &req.inner
}

// refused returns the refusal of a token if cause is its dismissal by a newer one, or
// nil. Use it only if nothing has been applied yet.
func refused(cause error) error {
	var dismissed *guard.DismissedError
	if errors.As(cause, &dismissed) {
		return &guard.StaleError{Token: dismissed.Token}
	}
	return nil
}

// refusal returns a refusal if a newer token has cancelled req, or nil.
func (req *request) refusal() error {
	req.mu.Lock()
	defer req.mu.Unlock()
	return req.refusalLocked()
}

func (req *request) refusalLocked() error {
	if !req.dismissed {
		return nil
	}
	return refused(context.Cause(req.ctx))
}

// cancelFor cancels req because a newer token than tok has arrived. It also sets
// deadlines on the connection: otherwise a stalled client would block the handler in a
// read of the body or a write of the response. It does nothing after the handler has
// returned, because the connection may serve another request.
func (req *request) cancelFor(tok token.Token, writeTimeout time.Duration) {
	req.mu.Lock()
	defer req.mu.Unlock()
	if req.finished || req.dismissed {
		return
	}
	req.dismissed = true
	req.cancel(&guard.DismissedError{Token: tok})
	// If a wrapper of the ResponseWriter hides the connection these calls fail, and
	// the newer request waits for the handler.
	control := http.NewResponseController(req.w)
	if req.body.mayBlock() {
		req.disturbed = true
		_ = control.SetReadDeadline(time.Now())
	}
	req.writeDeadline = time.Now().Add(writeTimeout)
	_ = control.SetWriteDeadline(req.writeDeadline)
}

// finish ends the request. The handler has returned or panicked, or was not called.
func (req *request) finish() {
	req.mu.Lock()
	req.finished = true
	if req.dismissed {
		req.restore()
	}
	req.mu.Unlock()
	req.cancel(nil)
	if req.inFlight != nil {
		req.inFlight.leaveAll(req.slots)
	}
}

// restore undoes the effects of cancelFor on a connection that stays open.
//
// The read deadline may have ended the server's own background read after the body. The
// server takes that for a disconnected client, and cancels every later request on the
// connection. "Connection: close" prevents later requests; it takes effect only while the
// header has not been written.
//
// After writeDeadline a response could not be written. restore sets the deadline anew,
// with the server's WriteTimeout if it has one.
func (req *request) restore() {
	if req.disturbed {
		req.w.Header().Set("Connection", "close")
	}
	if time.Now().Before(req.writeDeadline) {
		return
	}
	var deadline time.Time
	if server, ok := req.ctx.Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		deadline = time.Now().Add(server.WriteTimeout)
	}
	_ = http.NewResponseController(req.w).SetWriteDeadline(deadline)
}

// body is the body of a request that a newer token can cancel. The request's mutex guards
// its fields.
type body struct {
	io.ReadCloser // the server's; nil if there is none
	request       *request
	reading       int   // the number of goroutines in ReadCloser.Read
	known         bool  // the length is known
	unread        int64 // bytes, if the length is known
	whole         bool  // it was read to the end
}

// mayBlock reports whether the handler, or net/http after it, may block in a read of the
// body.
func (b *body) mayBlock() bool { return b.reading > 0 || b.ReadCloser != nil && !b.whole }

// Read returns a refusal if a newer token has cancelled the request: a read applies
// nothing. cancelFor also interrupts a read that is in progress, including net/http's own
// read of the rest of a body before it writes the response's header. After the end of the
// body, net/http reads the connection for other reasons, and cancelFor sets no read
// deadline.
//
// For a body of known length, Read returns no refusal after the last byte. Consider a
// handler that forwards the request:
//
//  1. net/http's Transport writes the last byte, which the upstream waits for;
//  2. the upstream has the whole request, and applies it;
//  3. a newer token arrives, and cancels the request;
//  4. the Transport reads once more, to check that nothing follows.
//
// A refusal in 4 would mean that nothing was applied. If the length is unknown, the
// upstream receives the end only after Read has returned it, so a refusal precedes 1.
func (b *body) Read(p []byte) (int, error) {
	if err := b.count(+1, 0, nil); err != nil {
		return 0, err
	}
	n, err := b.ReadCloser.Read(p)
	switch refusal := b.count(-1, n, err); {
	case refusal == nil, err == nil, errors.Is(err, io.EOF):
		return n, err
	case errors.Is(refusal, io.EOF): // interrupted in 4
		return n, io.EOF
	default:
		return n, errors.Join(refusal, err)
	}
}

// count adds readers to the reads in progress, and n to the bytes that were read with
// err. If a newer token has cancelled the request it returns a refusal, or [io.EOF] if
// the whole body has been read.
func (b *body) count(readers, n int, err error) error {
	b.request.mu.Lock()
	defer b.request.mu.Unlock()
	b.unread -= int64(n)
	if b.unread < 0 { // more than the length, as if a middleware had decompressed the body
		b.known = false
	}
	last := b.known && b.unread == 0
	b.whole = b.whole || last || errors.Is(err, io.EOF)
	refusal := b.request.refusalLocked()
	if refusal != nil && last {
		refusal = io.EOF
	}
	if readers < 0 || refusal == nil {
		b.reading += readers
	}
	return refusal
}
