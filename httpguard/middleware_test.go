package httpguard_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// at returns a store whose mark of account/42 is 33, of holder "a".
func at(t *testing.T) *guard.Memory {
	t.Helper()
	var marks guard.Memory
	require.NoError(t, marks.Admit(t.Context(), tok("account/42", 33, "a")))
	return &marks
}

func TestMiddlewareAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method string
		lines  []string
		status int
		typ    string
		wrote  string // what the handler found
	}{
		"a newer token":                  {"PUT", []string{line("account/42", 34, "b")}, 204, "", "PUT account/42#34"},
		"the mark's own token":           {"PUT", []string{line("account/42", 33, "a")}, 204, "", "PUT account/42#33"},
		"a stale token":                  {"PUT", []string{line("account/42", 32, "b")}, 412, httpguard.ProblemStale, ""},
		"a collision":                    {"PUT", []string{line("account/42", 33, "b")}, 412, httpguard.ProblemStale, ""},
		"no token":                       {"PUT", nil, 428, httpguard.ProblemMissing, ""},
		"an empty field":                 {"PUT", []string{""}, 428, httpguard.ProblemMissing, ""},
		"a token of another resource":    {"PUT", []string{line("account/7", 99, "b")}, 428, httpguard.ProblemMissing, ""},
		"POST without a token":           {"POST", nil, 428, httpguard.ProblemMissing, ""},
		"PATCH without a token":          {"PATCH", nil, 428, httpguard.ProblemMissing, ""},
		"DELETE without a token":         {"DELETE", nil, 428, httpguard.ProblemMissing, ""},
		"an unknown method":              {"PROPFIND", nil, 428, httpguard.ProblemMissing, ""},
		"a method in small letters":      {"get", nil, 428, httpguard.ProblemMissing, ""},
		"GET without a token":            {"GET", nil, 204, "", "GET"},
		"HEAD without a token":           {"HEAD", nil, 204, "", "HEAD"},
		"OPTIONS without a token":        {"OPTIONS", nil, 204, "", "OPTIONS"},
		"TRACE without a token":          {"TRACE", nil, 204, "", "TRACE"},
		"GET with a newer token":         {"GET", []string{line("account/42", 34, "b")}, 204, "", "GET account/42#34"},
		"GET with a stale token":         {"GET", []string{line("account/42", 32, "b")}, 412, httpguard.ProblemStale, ""},
		"GET with another's token":       {"GET", []string{line("account/7", 1, "b")}, 204, "", "GET account/7#1"},
		"GET with a malformed field":     {"GET", []string{"33"}, 400, httpguard.ProblemMalformed, ""},
		"a malformed token of another's": {"PUT", []string{line("account/42", 34, "b"), "7"}, 400, httpguard.ProblemMalformed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{}
			s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
			got := s.do(test.method, "/accounts/42", test.lines...)
			require.Equal(t, test.status, got.status, got.body)
			if test.wrote != "" {
				require.Equal(t, []string{test.wrote}, b.written())
				return
			}
			require.Empty(t, b.written())
			require.Equal(t, test.typ, got.problem(t)["type"])
		})
	}
}

func TestHostileFields(t *testing.T) {
	t.Parallel()
	b := &bank{}
	handler := func() http.Handler { return b.mux(httpguard.Middleware{Resources: accounts, Store: &guard.Memory{}}) }
	everyProtocol(t, handler, func(t *testing.T, s site) {
		for name, test := range malformed {
			for _, method := range []string{"PUT", "GET"} {
				got := s.do(method, "/accounts/42", test.lines...)
				require.Equal(t, http.StatusBadRequest, got.status, "%s %s", method, name)
				require.Equal(t, httpguard.ProblemMalformed, got.problem(t)["type"])
				require.Contains(t, got.problem(t)["detail"], test.rule, name)
			}
		}
		require.Empty(t, b.written())
	})
}

func TestRefusalsNameTheResource(t *testing.T) {
	t.Parallel()
	b := &bank{}
	s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	for _, lines := range [][]string{nil, {line("account/42", 1, "b")}} {
		require.Equal(t, "account/42", s.do("PUT", "/accounts/42", lines...).problem(t)["resource"])
	}
	got := s.do("HEAD", "/accounts/42", line("account/42", 1, "b"))
	require.Equal(t, http.StatusPreconditionFailed, got.status)
	require.Empty(t, got.body, "HEAD has no body")
}

func TestWithoutAStoreTheHandlerDecides(t *testing.T) {
	t.Parallel()
	marks := at(t)
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", httpguard.Middleware{Resources: accounts}.Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tok, err := token.FromContext(r.Context(), "account/"+r.PathValue("id"))
			if err == nil {
				err = marks.Admit(r.Context(), tok)
			}
			if err != nil {
				httpguard.Error(w, r, err)
			}
		})))
	everyProtocol(t, func() http.Handler { return withRoot(mux) }, func(t *testing.T, s site) {
		require.Equal(t, http.StatusOK, s.do("PUT", "/accounts/42", line("account/42", 33, "a")).status)
		require.Equal(t, http.StatusPreconditionFailed, s.do("PUT", "/accounts/42", line("account/42", 32, "a")).status)
		require.Equal(t, http.StatusPreconditionRequired, s.do("PUT", "/accounts/42").status)
		require.Equal(t, http.StatusBadRequest, s.do("PUT", "/accounts/42", "33").status)
	})
}

func TestNestedMiddlewaresAgree(t *testing.T) {
	t.Parallel()
	b := &bank{}
	outer := httpguard.Middleware{Resources: accounts}
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", outer.Wrap(httpguard.Middleware{Resources: accounts, Store: at(t)}.Wrap(b)))
	s := serve(t, mux, false)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", line("account/42", 34, "b")).status)
	require.Equal(t, http.StatusPreconditionFailed, s.do("PUT", "/accounts/42", line("account/42", 33, "a")).status)
	require.Equal(t, []string{"PUT account/42#34"}, b.written())
}
