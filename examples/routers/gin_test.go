package routers_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/routers"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// forgetful is the adapter without c.Abort.
func forgetful(wrap middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
	}
}

func TestGinRunsNoHandlerOfARefusedRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		adapt  func(middleware) gin.HandlerFunc
		writes int
	}{
		"with the example's adapter":             {routers.GinMiddleware, 0},
		"an adapter without Abort runs them all": {forgetful, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes, r := 0, gin.New()
			r.PUT("/accounts/:id", c.adapt(guarded(&guard.Memory{}).Wrap), func(*gin.Context) { writes++ })
			s := serve(t, r, false)
			require.Equal(t, "ProblemMissing", put(t, s, "/accounts/42", "").kind, "the client gets the same answer")
			require.Equal(t, c.writes, writes)
		})
	}
}

// A write with gin's own context finds no token, and fails.
func TestGinsOwnContextCarriesNoToken(t *testing.T) {
	t.Parallel()
	var own, requests error
	r := gin.New()
	r.PUT("/accounts/:id", routers.GinMiddleware(guarded(nil).Wrap), func(c *gin.Context) {
		_, own = token.FromContext(c, "account/42")
		_, requests = token.FromContext(c.Request.Context(), "account/42")
	})
	require.Equal(t, http.StatusOK, put(t, serve(t, r, false), "/accounts/42", "", line("account/42", 33)).status)
	require.ErrorIs(t, own, token.ErrMissing)
	require.NoError(t, requests)
}

// Middleware around the guard continues after it, with a context of its own.
func TestGinsOuterMiddlewareHasItsRequestBack(t *testing.T) {
	t.Parallel()
	var inside, after context.Context
	var status int
	r := gin.New()
	r.Use(func(c *gin.Context) {
		c.Next()
		after, status = c.Request.Context(), c.Writer.Status()
		require.NoError(t, after.Err())
	})
	r.PUT("/accounts/:id", routers.GinMiddleware(guarded(nil).Wrap), func(c *gin.Context) {
		inside = c.Request.Context()
		context.AfterFunc(inside, func() {}) // as database/sql does
		c.Status(http.StatusAccepted)
	})
	s := serve(t, r, false)
	require.Equal(t, http.StatusAccepted, put(t, s, "/accounts/42", "", line("account/42", 33)).status)
	s.Close() // the handlers have returned
	require.Equal(t, http.StatusAccepted, status)
	require.ErrorIs(t, inside.Err(), context.Canceled)
	require.Empty(t, token.All(after))
}

// The guard sees whether the status was 2xx, although gin's handlers do not write to the
// guard's writer.
func TestGinsStatusReachesTheGuard(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{http.StatusNoContent: 1, http.StatusNotFound: 0} {
		unused, r := 0, gin.New()
		m := guarded(nil)
		m.OnUnusedToken = func(*http.Request, token.Token) { unused++ }
		r.PUT("/accounts/:id", routers.GinMiddleware(m.Wrap), func(c *gin.Context) { c.Status(status) })
		s := serve(t, r, false)
		require.Equal(t, status, put(t, s, "/accounts/42", "", line("account/42", 33)).status)
		s.Close() // the guard has read the status
		require.Equal(t, want, unused, status)
	}
}
