package routers

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/fencepost/fencepost/httpguard"
)

// Gin is the service on gin.
//
// r.Use(GinMiddleware(guarded.Wrap)) runs after routing, for each route: writes to routes
// without an :id are answered with 500. If the guard is around the engine, so is every
// write.
func Gin(a *Accounts, guarded httpguard.Middleware) http.Handler {
	r := gin.New()
	r.Use(gin.Recovery())
	r.PUT("/accounts/:id", GinMiddleware(guarded.Wrap), a.putGin)
	return r
}

// GinMiddleware converts middleware of net/http to gin's. The handlers behind it run
// inside wrap and get its request. If wrap does not call its handler, GinMiddleware calls
// c.Abort, since gin would run the next handler by itself.
func GinMiddleware(wrap func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		outer, admitted := c.Request, false
		for _, p := range c.Params {
			outer.SetPathValue(p.Key, p.Value)
		}
		wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			admitted, c.Request = true, r
			defer func() { c.Request = outer }() // r ends with wrap
			c.Next()
			w.WriteHeader(c.Writer.Status()) // the handlers have written to gin's writer and not to w
		})).ServeHTTP(c.Writer, outer)
		if !admitted {
			c.Abort()
		}
	}
}

// putGin passes the request's context, and not gin's own: that has no token, unless the
// engine has ContextWithFallback.
func (a *Accounts) putGin(c *gin.Context) {
	err := a.Put(c.Request.Context(), c.Param("id"), c.Request.Body)
	switch {
	case err == nil:
		c.Status(http.StatusNoContent)
	case errors.Is(err, errSyntax):
		c.String(http.StatusUnprocessableEntity, err.Error())
	default:
		httpguard.Error(c.Writer, c.Request, err)
	}
}
