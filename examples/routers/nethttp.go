package routers

import (
	"errors"
	"net/http"

	"github.com/fencepost/fencepost/httpguard"
)

// NetHTTP is the service on the standard library's router. The guard wraps the handler of
// the route, and not the mux.
func NetHTTP(a *Accounts, guarded httpguard.Middleware) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", guarded.Wrap(http.HandlerFunc(a.put)))
	return mux
}

// put writes under the tokens of the request's context.
func (a *Accounts) put(w http.ResponseWriter, r *http.Request) {
	err := a.Put(r.Context(), r.PathValue("id"), r.Body)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errSyntax):
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default:
		httpguard.Error(w, r, err)
	}
}
