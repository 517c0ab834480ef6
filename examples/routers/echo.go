package routers

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/fencepost/fencepost/httpguard"
)

// Echo is the service on echo. WrapMiddleware copies echo's path parameters to
// where net/http has them; that of echo v4 does not. Behind it, c.Request() is
// still the guard's: for what stands around the guard, its context has ended.
//
// e.Pre runs before routing, and the guard there answers every write with 500.
// e.Use runs after it, for each route: those without an :id are answered so too.
func Echo(a *Accounts, guarded httpguard.Middleware) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover())
	e.PUT("/accounts/:id", a.putEcho, echo.WrapMiddleware(guarded.Wrap))
	return e
}

// putEcho answers all errors itself. One that it returned would be answered by
// echo's own handler, which takes a refusal for a 500, and after the guard has
// looked at the status.
func (a *Accounts) putEcho(c *echo.Context) error {
	r := c.Request()
	err := a.Put(r.Context(), c.Param("id"), r.Body)
	switch {
	case err == nil:
		return c.NoContent(http.StatusNoContent)
	case errors.Is(err, errSyntax):
		return c.String(http.StatusUnprocessableEntity, err.Error())
	}
	httpguard.Error(c.Response(), r, err)
	return nil
}
