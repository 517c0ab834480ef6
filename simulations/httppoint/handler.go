package httppoint

import (
	"net/http"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// Handler returns a handler that finds the simulation of a request's id and adds it to
// the context before it calls next. It passes on a request without a valid id unchanged.
// Mount it outermost, around httpguard's middleware too. It is safe for concurrent use if
// next is.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get(Header); id != "" {
			if ctx, known := failpoint.Import(r.Context(), id); known {
				r = r.WithContext(ctx)
			}
		}
		next.ServeHTTP(w, r)
	})
}
