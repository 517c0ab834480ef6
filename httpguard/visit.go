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
	going sync.Mutex             // held while the connection is disturbed
	left  bool                   // the handler has returned

	oneSeal  [1]seal.Sealed
	onePlace [1]place
}

// ending is a context that can end.
type ending struct {
	context.Context
	cancel context.CancelCauseFunc
}

type visitKey struct{}

func newVisit(w http.ResponseWriter, r *http.Request, owner any) *visit {
	v := &visit{Context: r.Context(), w: w, owner: owner}
	if r.Body != http.NoBody {
		v.body = r.Body
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

// received reports whether tok came with a request, this one or one around it.
func received(ctx context.Context, tok token.Token) bool {
	for v, ok := ctx.Value(visitKey{}).(*visit); ok; v, ok = v.Context.Value(visitKey{}).(*visit) {
		if s := v.find(tok.Resource); s != nil && s.Token == tok {
			return true
		}
	}
	return false
}

// Done implements [context.Context]. The first call makes a context that can be
// cancelled in the usual way, so that those that are derived from this one need
// no goroutine each.
func (v *visit) Done() <-chan struct{} { return v.ending().Done() }

// Err implements [context.Context].
func (v *visit) Err() error { return v.current().Err() }

// Value implements [context.Context]. [context.Cause] finds the inner context
// by it.
func (v *visit) Value(key any) any {
	if key == (visitKey{}) {
		return v
	}
	return v.current().Value(key)
}

// String is for those who print a context: it must not tell the seals, nor look
// at what others may change.
func (v *visit) String() string { return fmt.Sprintf("%v.WithRequest", v.Context) }

// Format implements [fmt.Formatter]: every verb prints String.
func (v *visit) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, v.String()) }

func (v *visit) current() context.Context {
	if e := v.inner.Load(); e != nil {
		return e
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
	if !v.inner.CompareAndSwap(nil, e) {
		e.cancel(nil)
	}
	return v.inner.Load()
}

// dismissed returns why v was told to go, or nil.
func (v *visit) dismissed() error {
	if !v.told.Load() {
		return nil
	}
	if cause := context.Cause(v.current()); errors.Is(cause, guard.ErrStale) {
		return cause
	}
	return nil
}

// dismiss tells v to go, since a newer token than its tok has come. What the handler reads
// of the body, or writes to a client that does not read, would otherwise keep
// it for as long as that client sleeps. A handler that has returned is not
// disturbed any more: its connection may be at work for another request.
func (v *visit) dismiss(tok token.Token, grace time.Duration) {
	v.going.Lock()
	defer v.going.Unlock()
	if v.left || v.told.Load() {
		return
	}
	v.ending().cancel(&guard.StaleError{Token: tok})
	v.told.Store(true)
	// Where a wrapper of the writer hides the connection these do nothing, and
	// the handler is waited for.
	control := http.NewResponseController(v.w)
	if v.body != nil {
		_ = control.SetReadDeadline(time.Now())
	}
	_ = control.SetWriteDeadline(time.Now().Add(grace))
}

// leave ends the visit: the handler has returned or panicked, or never ran.
func (v *visit) leave() {
	if e := v.inner.Load(); e != nil {
		e.cancel(context.Canceled)
	}
	v.going.Lock()
	v.left = true
	if v.told.Load() {
		v.restore()
	}
	v.going.Unlock()
	for i := range v.places {
		v.places[i].leave()
	}
}

// restore lets an answer out that comes after the grace: the deadline that the
// server had set, if any, begins anew. That for reading the server itself sets
// before the next request.
func (v *visit) restore() {
	var deadline time.Time
	if server, ok := v.Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		deadline = time.Now().Add(server.WriteTimeout)
	}
	_ = http.NewResponseController(v.w).SetWriteDeadline(deadline)
}
