package httpguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// visit is a request with tokens, from when they were read until the handler
// has returned. It is also the context that the handler gets: most requests are
// never told to go, and need nothing but this one allocation for it.
type visit struct {
	context.Context // of the request, with its tokens

	sealed []seal.Sealed // what the request came with
	places []place
	w      http.ResponseWriter
	body   io.ReadCloser // nil where there is none
	owner  any           // whose window it goes through

	inner atomic.Pointer[ending] // nil for as long as nobody asks for the end
	told  atomic.Bool            // the handler was told to go
	left  atomic.Bool            // the handler has returned

	going     sync.Mutex // held while the connection is disturbed
	reading   int        // how many are reading the body
	unread    int64      // of the body; negative where its length is not known
	disturbed bool       // they were interrupted
	grace     time.Time  // until when the handler may write

	oneSeal  [1]seal.Sealed
	onePlace [1]place
}

// ending is a context that can end.
type ending struct {
	context.Context
	cancel context.CancelCauseFunc
}

func newVisit(w http.ResponseWriter, r *http.Request, owner any) *visit {
	v := &visit{Context: r.Context(), w: w, owner: owner, unread: r.ContentLength}
	if r.Body != http.NoBody {
		v.body = r.Body
	}
	if r.ContentLength == 0 { // where there is a body, net/http's clients mean that they do not know
		v.unread = -1
	}
	return v
}

// read takes the tokens from the field's lines into the context. The seal of a
// token goes with it, also where nobody here verifies it.
func (v *visit) read(lines []string) error {
	sealed, err := appendSealed(v.oneSeal[:0], lines)
	if err != nil {
		return err
	}
	v.sealed = sealed
	for i := range sealed {
		if sealed[i].Key == "" {
			v.Context = token.NewContext(v.Context, sealed[i].Token)
		} else {
			v.Context = seal.NewContext(v.Context, sealed[i])
		}
	}
	return nil
}

// find returns the token of resource that the request came with, or nil.
func (v *visit) find(resource string) *seal.Sealed {
	for i := range v.sealed {
		if v.sealed[i].Token.Resource == resource {
			return &v.sealed[i]
		}
	}
	return nil
}

// Done implements [context.Context]. The first call makes a context that can be
// cancelled in the usual way, so that those that are derived from this one need
// no goroutine each.
func (v *visit) Done() <-chan struct{} { return v.ending().Done() }

// Err implements [context.Context].
func (v *visit) Err() error { return v.current().Err() }

// Value implements [context.Context]. [context.Cause] finds the inner context
// by it.
func (v *visit) Value(key any) any { return v.current().Value(key) }

// String is for those who print a context: it must not tell the seals, nor look
// at what others may change.
func (v *visit) String() string { return fmt.Sprintf("%v.WithRequest", v.Context) }

// Format implements [fmt.Formatter]: every verb prints String.
func (v *visit) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, v.String()) }

func (v *visit) current() context.Context {
	if e := v.inner.Load(); e != nil {
		return e
	}
	if v.left.Load() {
		return v.ending()
	}
	return v.Context
}

// ending returns the inner context, and makes it if need be.
func (v *visit) ending() *ending {
	if e := v.inner.Load(); e != nil {
		return e
	}
	e := new(ending)
	e.Context, e.cancel = context.WithCancelCause(v.Context)
	if !v.inner.CompareAndSwap(nil, e) || v.left.Load() {
		e.cancel(nil)
	}
	return v.inner.Load()
}

// refused returns the refusal of a token that was told to go, where that is the
// cause, or nil. It is for where nothing has been applied yet.
func refused(cause error) error {
	var dismissed *guard.DismissedError
	if errors.As(cause, &dismissed) {
		return &guard.StaleError{Token: dismissed.Token}
	}
	return nil
}

// dismissed returns a refusal if v was told to go, or nil.
func (v *visit) dismissed() error {
	if !v.told.Load() {
		return nil
	}
	return refused(context.Cause(v.current()))
}

// dismiss tells v to go, since a newer token than its tok has come. What the
// handler reads of the body, or writes to a client that does not read, would
// otherwise keep it for as long as that client sleeps. A handler that has
// returned is not disturbed any more: its connection may be at work for another
// request.
func (v *visit) dismiss(tok token.Token, grace time.Duration) {
	v.going.Lock()
	defer v.going.Unlock()
	if v.left.Load() || v.told.Load() {
		return
	}
	v.told.Store(true)
	v.ending().cancel(&guard.DismissedError{Token: tok})
	// Where a wrapper of the writer hides the connection these do nothing, and
	// the handler is waited for.
	control := http.NewResponseController(v.w)
	if v.reading > 0 {
		v.disturbed = true
		_ = control.SetReadDeadline(time.Now())
	}
	v.grace = time.Now().Add(grace)
	_ = control.SetWriteDeadline(v.grace)
}

// leave ends the visit: the handler has returned or panicked, or never ran.
func (v *visit) leave() {
	v.going.Lock()
	v.left.Store(true)
	if v.told.Load() {
		v.restore()
	}
	v.going.Unlock()
	if e := v.inner.Load(); e != nil {
		e.cancel(context.Canceled)
	}
	for i := range v.places {
		v.places[i].leave()
	}
}

// restore undoes what dismiss did to a connection that goes on.
//
// The server may have seen the deadline for reading in its own read behind the
// end of the body: it takes that for the client's leaving, and every later request
// on the connection for one whose client has left. So there must be none, which can
// be said for as long as the header has not been written.
//
// An answer that comes after the grace is let out: the deadline that the server
// had set, if any, begins anew.
func (v *visit) restore() {
	if v.disturbed {
		v.w.Header().Set("Connection", "close")
	}
	if time.Now().Before(v.grace) {
		return
	}
	var deadline time.Time
	if server, ok := v.Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		deadline = time.Now().Add(server.WriteTimeout)
	}
	_ = http.NewResponseController(v.w).SetWriteDeadline(deadline)
}
