package http

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// bare is what a program has without a guard: it reads the body and says that all
// is well.
var bare = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
})

// silent does not even read.
var silent = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })

// carrying is the least that gives a handler something in its context.
var carrying = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	type key struct{}
	silent(w, r.WithContext(context.WithValue(r.Context(), key{}, w)))
})

// guarded is a handler behind the middleware.
func guarded(handler http.Handler, store guard.Store, ring *seal.Ring) http.Handler {
	return httpguard.Middleware{
		Resources: httpguard.Pattern("account/{id}"), Store: store, Seals: ring, Window: new(httpguard.Window),
	}.Wrap(handler)
}

// refusing answers as the middleware does, and does nothing else.
var refusing = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	httpguard.Error(w, r, &guard.StaleError{Token: token.Token{Resource: "account/42", Number: 1, Holder: "h"}})
})

// answer is one that nobody reads.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
func (a *answer) WriteHeader(status int)      { a.status = status }

// call is a request whose path has been matched.
type call struct {
	answer answer
	r      *http.Request
}

// called calls handler, which must answer that all is well.
func called(handler http.Handler, f fields) measure.Op {
	var calls [many]call
	for worker := range calls {
		r, _ := http.NewRequest(http.MethodPut, "/accounts/"+account(worker), http.NoBody) // both are constants
		r.Header.Set(httpguard.Header, f[worker])
		r.SetPathValue("id", account(worker))
		calls[worker] = call{answer{header: http.Header{}}, r}
	}
	return func(_ context.Context, worker int) error {
		c := &calls[worker]
		handler.ServeHTTP(&c.answer, c.r)
		return answered(c.answer.status, http.StatusNoContent)
	}
}

func answered(status, want int) error {
	if status != want {
		return fmt.Errorf("answered %d and not %d", status, want)
	}
	return nil
}

var balance = []byte("100")

func body() io.Reader { return bytes.NewReader(balance) }
