package routers_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

const transfer = "/accounts/42/to/43"

// passing is a naive guard: if the request has no path value, it assumes that there is
// nothing to guard.
func passing(m httpguard.Middleware) middleware {
	return func(next http.Handler) http.Handler {
		guarded := m.Wrap(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") == "" {
				next.ServeHTTP(w, r)
				return
			}
			guarded.ServeHTTP(w, r)
		})
	}
}

func TestAGuardThatIsMountedTooEarly(t *testing.T) {
	t.Parallel()
	// hazard W11
	each(t, func(t *testing.T, r router, two bool) {
		writes := 0
		write := func(http.ResponseWriter, *http.Request) { writes++ }
		marks := &guard.Memory{}
		require.NoError(t, marks.Admit(t.Context(), token.Token{Resource: "account/42", Number: 34, Holder: "h34"}))
		m, stale := guarded(marks), line("account/42", 33)

		s := serve(t, r.early(passing(m), write), two)
		require.Equal(t, http.StatusOK, put(t, s, transfer, "", stale).status)
		require.Equal(t, http.StatusOK, put(t, s, transfer, "").status)
		require.Equal(t, 2, writes, "the naive guard has accepted a stale write and one without a token")

		s = serve(t, r.early(m.Wrap, write), two)
		for _, lines := range [][]string{{stale}, {line("account/42", 35)}, nil} {
			got := put(t, s, transfer, "", lines...)
			require.Equal(t, http.StatusInternalServerError, got.status)
			require.Equal(t, "ProblemUnknownResource", got.kind)
			require.Contains(t, got.body, "could not determine the resource")
		}
		s = serve(t, r.route(m.Wrap, write), two)
		require.Equal(t, "ProblemStale", put(t, s, transfer, "", stale).kind)
		require.Equal(t, 2, writes)
		require.Equal(t, http.StatusOK, put(t, s, transfer, "", line("account/42", 35)).status)
		require.Equal(t, 3, writes)
	})
}

func TestInsideARouteOfChiUseIsNotTooEarly(t *testing.T) {
	t.Parallel()
	r := chi.NewRouter()
	r.Route("/accounts/{id}", func(r chi.Router) {
		r.Use(guarded(nil).Wrap)
		r.Put("/to/{other}", func(http.ResponseWriter, *http.Request) {})
	})
	s := serve(t, r, false)
	require.Equal(t, "ProblemMissing", put(t, s, transfer, "").kind)
	require.Equal(t, http.StatusOK, put(t, s, transfer, "", line("account/42", 33)).status)
}

func TestARouteWithTwoResources(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router, two bool) {
		var carried []token.Token
		m := guarded(&guard.Memory{})
		m.Resources = httpguard.Pattern("account/{id}", "account/{other}")
		s := serve(t, r.route(m.Wrap, func(_ http.ResponseWriter, r *http.Request) { carried = token.All(r.Context()) }), two)
		for _, one := range []string{"account/42", "account/43"} {
			require.Equal(t, "ProblemMissing", put(t, s, transfer, "", line(one, 33)).kind)
		}
		require.Empty(t, carried)
		require.Equal(t, http.StatusOK, put(t, s, transfer, "", line("account/43", 5), line("account/42", 33)).status)
		require.ElementsMatch(t, []token.Token{
			{Resource: "account/42", Number: 33, Holder: "h33"}, {Resource: "account/43", Number: 5, Holder: "h5"},
		}, carried)
		require.Equal(t, "ProblemStale", put(t, s, transfer, "", line("account/43", 4), line("account/42", 34)).kind)
	})
}
