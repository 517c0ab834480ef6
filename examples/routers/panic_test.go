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

// leaving is a window that opens again when the handler returns, and only then.
func leaving() middleware {
	var window sync.Mutex
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !window.TryLock() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			next.ServeHTTP(w, r)
			window.Unlock()
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
				require.Error(t, err, "the server drops the connection")
			} else {
				require.NoError(t, err)
				require.Equal(t, http.StatusInternalServerError, read(t, resp, two).status)
			}
			return put(t, s, transfer, "", line("account/42", 34))
		}
		require.Equal(t, http.StatusServiceUnavailable, after(leaving()).status, "the naive window has stayed shut")

		m := guarded(&guard.Memory{})
		m.Wait = time.Millisecond // whoever would be waited for has left
		require.Equal(t, http.StatusOK, after(m.Wrap).status)
	})
}
