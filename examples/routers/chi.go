package routers

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/fencepost/fencepost/httpguard"
)

// Chi is the service on chi, with the handler of net/http. With mounts the guard
// at the route, where chi has set the path values.
//
// Use does not: r.Use(guarded.Wrap) runs before routing, and answers every write
// with 500. In a r.Route("/accounts/{id}", …) the r.Use inside will do, since
// what is outside of it has been matched.
func Chi(a *Accounts, guarded httpguard.Middleware) http.Handler {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer)
	r.With(guarded.Wrap).Put("/accounts/{id}", a.put)
	return r
}
