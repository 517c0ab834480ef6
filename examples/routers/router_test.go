package routers_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"

	"github.com/fencepost/fencepost/examples/routers"
	"github.com/fencepost/fencepost/httpguard"
)

type middleware = func(http.Handler) http.Handler

// router is one of the four routers, with the places for a guard.
type router struct {
	name string
	// service is the example's service.
	service func(*routers.Accounts, httpguard.Middleware) http.Handler
	// route has PUT /accounts/{id}/to/{other}, guarded as in the example, behind the
	// router's recovery from panics.
	route func(guard middleware, handler http.HandlerFunc) http.Handler
	// early has the same route, with the guard before the path is matched.
	early func(guard middleware, handler http.HandlerFunc) http.Handler
}

const (
	braces = "/accounts/{id}/to/{other}"
	colons = "/accounts/:id/to/:other"
)

var all = []router{
	{"net/http", routers.NetHTTP, muxRoute, func(guard middleware, h http.HandlerFunc) http.Handler {
		return guard(muxRoute(none, h))
	}},
	{"chi", routers.Chi, chiRoute, func(guard middleware, h http.HandlerFunc) http.Handler {
		r := chi.NewRouter()
		r.Use(guard)
		r.Put(braces, h)
		return r
	}},
	{"echo", routers.Echo, echoRoute, func(guard middleware, h http.HandlerFunc) http.Handler {
		e := echo.New()
		e.Pre(echo.WrapMiddleware(guard))
		e.PUT(colons, ofEcho(h))
		return e
	}},
	{"gin", routers.Gin, ginRoute, func(guard middleware, h http.HandlerFunc) http.Handler {
		return guard(ginRoute(none, h))
	}},
}

func none(h http.Handler) http.Handler { return h }

func muxRoute(guard middleware, h http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("PUT "+braces, guard(h))
	return mux
}

// chiRoute wraps the writer, as chi's loggers and metrics do.
func chiRoute(guard middleware, h http.HandlerFunc) http.Handler {
	r := chi.NewRouter()
	r.Use(chimiddleware.Recoverer, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(chimiddleware.NewWrapResponseWriter(w, r.ProtoMajor), r)
		})
	})
	r.With(guard).Put(braces, h)
	return r
}

func echoRoute(guard middleware, h http.HandlerFunc) http.Handler {
	e := echo.New()
	e.Use(echomiddleware.Recover())
	e.PUT(colons, ofEcho(h), echo.WrapMiddleware(guard))
	return e
}

func ofEcho(h http.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		h(c.Response(), c.Request())
		return nil
	}
}

func ginRoute(guard middleware, h http.HandlerFunc) http.Handler {
	r := gin.New()
	r.Use(gin.Recovery())
	r.PUT(colons, routers.GinMiddleware(guard), ofGin(h))
	return r
}

func ofGin(h http.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) { h(c.Writer, c.Request) }
}

// each runs test for each router, over HTTP/1.1 and over HTTP/2.
func each(t *testing.T, test func(t *testing.T, r router, two bool)) {
	t.Helper()
	for _, r := range all {
		for over, two := range map[string]bool{", over HTTP/1.1": false, ", over HTTP/2": true} {
			t.Run(r.name+over, func(t *testing.T) {
				t.Parallel()
				test(t, r, two)
			})
		}
	}
}
