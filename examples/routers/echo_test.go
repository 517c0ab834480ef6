package routers_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// echoed sends a PUT to handler. It returns the reply, and how many tokens the middleware
// reports as unused.
func echoed(t *testing.T, handler echo.HandlerFunc, around ...echo.MiddlewareFunc) (got reply, unused int) {
	t.Helper()
	e, m := echo.New(), guarded(nil)
	m.OnUnusedToken = func(*http.Request, token.Token) { unused++ }
	e.Use(around...)
	e.PUT("/accounts/:id", handler, echo.WrapMiddleware(m.Wrap))
	s := serve(t, e, false)
	got = put(t, s, "/accounts/42", "", line("account/42", 33))
	s.Close() // the guard may read the status after it was sent
	return got, unused
}

func TestErrorsThatAreReturnedToEcho(t *testing.T) {
	t.Parallel()
	stale := &guard.StaleError{Token: token.Token{Resource: "account/42", Number: 33, Holder: "h33"}}

	got, unused := echoed(t, func(*echo.Context) error { return stale })
	require.Equal(t, http.StatusInternalServerError, got.status, "echo does not handle a StaleError")
	require.Equal(t, 1, unused, "the guard has seen no status, which means 200")

	got, unused = echoed(t, func(c *echo.Context) error {
		httpguard.Error(c.Response(), c.Request(), stale)
		return nil
	})
	require.Equal(t, "ProblemStale", got.kind)
	require.Zero(t, unused)
}

// After the guard, echo's outer middleware must not use c.Request() for work of its own.
func TestEchosOuterMiddlewareHasAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	var before, after error
	got, _ := echoed(t, func(c *echo.Context) error {
		context.AfterFunc(c.Request().Context(), func() {}) // as database/sql does
		return c.NoContent(http.StatusNoContent)
	}, func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			own := c.Request().Context()
			err := next(c)
			before, after = own.Err(), c.Request().Context().Err()
			return err
		}
	})
	require.Equal(t, http.StatusNoContent, got.status)
	assert.NoError(t, before)
	assert.ErrorIs(t, after, context.Canceled)
}
