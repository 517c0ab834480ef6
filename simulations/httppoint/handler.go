package httppoint

import (
	"net/http"

	"github.com/fencepost/fencepost/internal/point"
)

// Handler serves a request that carries the id of a simulation of this process
// under a context that is part of it, and every other as it is. Mount it around
// everything, httpguard's middleware too. It is safe for concurrent use if next
// is.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get(Header); id != "" {
			if ctx, known := point.Import(r.Context(), id); known {
				r = r.WithContext(ctx)
			}
		}
		next.ServeHTTP(w, r)
	})
}
