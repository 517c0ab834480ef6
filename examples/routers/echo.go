package routers

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/fencepost/fencepost/httpguard"
)

// Echo is the service on echo. WrapMiddleware copies echo's path parameters to net/http's
// path values; the one of echo v4 does not. After the guard has returned, c.Request() is
// still the guard's request, whose context has ended: middleware around the guard must
// not use it.
//
// e.Pre runs before routing, and with the guard there every write is answered with 500.
// e.Use runs after routing, for each route: writes to routes without an :id are answered
// with 500 too.
func Echo(a *Accounts, guarded httpguard.Middleware) http.Handler {
	e := echo.New()
	e.Use(middleware.Recover())
	e.PUT("/accounts/:id", a.putEcho, echo.WrapMiddleware(guarded.Wrap))
	return e
}

// putEcho answers all errors itself. If it returned an error, echo's own handler would
// answer a refusal with 500, and only after the guard has read the status.
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
