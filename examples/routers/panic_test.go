package routers_test

import (
	"io"
	"log"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

var discarded = log.New(io.Discard, "", 0)

// leaving is a naive in-flight table: the slot is freed only if the handler returns.
func leaving() middleware {
	var slot sync.Mutex
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slot.TryLock() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
			slot.Unlock()
		})
	}
}

func TestAPanicLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	// hazard W8
	each(t, func(t *testing.T, r router, two bool) {
		panics := func(_ http.ResponseWriter, r *http.Request) {
			if r.PathValue("other") == "panic" {
				panic("a handler")
			}
		}
		after := func(guard middleware) reply {
			s := serve(t, r.route(guard, panics), two)
			resp, err := s.Client().Do(request(t, s, "/accounts/42/to/panic", nil, line("account/42", 33)))
			if r.name == "net/http" {
				require.Error(t, err, "the server closes the connection")
			} else {
				require.NoError(t, err)
				require.Equal(t, http.StatusInternalServerError, read(t, resp, two).status)
			}
			return put(t, s, transfer, "", line("account/42", 34))
		}
		require.Equal(t, http.StatusServiceUnavailable, after(leaving()).status, "the naive slot is never freed")

		m := guarded(&guard.Memory{})
		m.WaitTimeout = time.Minute // not needed: the request that it would wait for has left
		require.Equal(t, http.StatusOK, after(m.Wrap).status)
	})
}
