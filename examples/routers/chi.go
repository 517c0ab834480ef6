package routers

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/fencepost/fencepost/httpguard"
)

// Chi is the service on chi, with the handler of net/http. With mounts the guard at the
// route, where chi has set the path values.
//
// Use does not: r.Use(guarded.Wrap) runs before routing, and every write is answered with
// 500. Inside r.Route("/accounts/{id}", …) r.Use works, since the part of the path
// outside of it has been matched.
func Chi(a *Accounts, guarded httpguard.Middleware) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.With(guarded.Wrap).Put("/accounts/{id}", a.put)
	return r
}
