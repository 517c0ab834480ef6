package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestSeveralResources(t *testing.T) {
	t.Parallel()
	b, marks := &bank{}, at(t)
	guarded := httpguard.Middleware{Resources: httpguard.Pattern("account/{from}", "account/{to}"), Store: marks}
	mux := http.NewServeMux()
	mux.Handle("/transfers/{from}/{to}", guarded.Wrap(b))
	s := serve(t, mux, false)

	got := s.do("POST", "/transfers/42/7", line("account/42", 34, "b"))
	require.Equal(t, http.StatusPreconditionRequired, got.status)
	require.Equal(t, "account/7", got.problem(t)["resource"])
	require.EqualValues(t, 33, marks.Mark("account/42").Number, "nothing is admitted before everything is there")

	got = s.do("POST", "/transfers/42/7", line("account/7", 1, "b"), line("account/42", 32, "b"))
	require.Equal(t, http.StatusPreconditionFailed, got.status)
	require.Equal(t, "account/42", got.problem(t)["resource"])
	require.Empty(t, b.written())

	require.Equal(t, "account/42", s.do("POST", "/transfers/42/7").problem(t)["resource"])
	got = s.do("POST", "/transfers/42/7", line("account/7", 1, "b"), line("account/42", 34, "b"))
	require.Equal(t, http.StatusNoContent, got.status)
	require.Equal(t, []string{"POST account/42#34 account/7#1"}, b.written())
}

// All requests use one order, so no two of them refuse each other.
func TestTheStoreAdmitsEachNameOnceInBytewiseOrder(t *testing.T) {
	t.Parallel()
	admitted := make(chan string, 3)
	m := httpguard.Middleware{
		Resources: func(*http.Request) ([]string, error) { return []string{"b", "a", "b"}, nil },
		Store: storeFunc(func(_ context.Context, tok token.Token) error {
			admitted <- tok.Resource
			return nil
		}),
	}
	s := serve(t, (&bank{}).mux(m), false)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", line("b", 1, "h"), line("a", 1, "h")).status)
	require.Equal(t, []string{"a", "b"}, []string{<-admitted, <-admitted})
	require.Empty(t, admitted)
}

func TestTokensOfOtherResourcesAreIgnored(t *testing.T) {
	t.Parallel()
	// hazard W10
	fields := []string{line("job/nightly", 9, "a"), line("account/42", 34, "b")}

	// The naive middleware reads one token of two.
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tok token.Token
		if err := tok.UnmarshalText([]byte(r.Header.Get(httpguard.Header))); err != nil || tok.Resource != "account/42" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	require.Equal(t, http.StatusBadRequest, serve(t, naive, false).do("PUT", "/", fields...).status)

	found := make(chan error, 3)
	guarded := httpguard.Middleware{Resources: accounts, Store: at(t)}
	mux := http.NewServeMux()
	mux.Handle("PUT /accounts/{id}", guarded.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, resource := range []string{"account/42", "job/nightly", "account/7"} {
			_, err := token.FromContext(r.Context(), resource)
			found <- err
		}
	})))
	require.Equal(t, http.StatusOK, serve(t, mux, false).do("PUT", "/accounts/42", fields...).status)
	require.NoError(t, <-found)
	require.NoError(t, <-found, "carried, though not checked")
	require.ErrorIs(t, <-found, token.ErrMissing, "never a token of some other resource")
}

func TestMountedBeforeRouting(t *testing.T) {
	t.Parallel()
	// hazard W11
	b := &bank{}
	routes := http.NewServeMux()
	routes.Handle("PUT /accounts/{id}", b)

	// Middleware is mounted around the router, as by chi's Use: the path has not been
	// matched, and every account gets the same name. Account 7's writer is refused
	// as stale because account 42's number is higher.
	var marks guard.Memory
	naive := httpguard.Middleware{Store: &marks, Resources: func(r *http.Request) ([]string, error) {
		return []string{"account/" + r.PathValue("id")}, nil
	}}
	s := serve(t, naive.Wrap(routes), false)
	require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", line("account/", 9, "a")).status)
	require.Equal(t, http.StatusPreconditionFailed, s.do("PUT", "/accounts/7", line("account/", 8, "b")).status)
	require.Len(t, b.written(), 1)

	s = serve(t, httpguard.Middleware{Resources: accounts}.Wrap(routes), false)
	got := s.do("PUT", "/accounts/42", line("account/42", 9, "a"))
	require.Equal(t, http.StatusInternalServerError, got.status)
	require.Equal(t, httpguard.ProblemUnknownResource, got.problem(t)["type"])
	require.NotContains(t, got.body, "middleware", "the caller cannot mount one")
	require.Len(t, b.written(), 1)
	require.True(t, logged.has(`the path value id is empty: mount the middleware around the handler of a route`))
}

func TestResourcesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	names := func(names ...string) func(*http.Request) ([]string, error) {
		return func(*http.Request) ([]string, error) { return names, nil }
	}
	fails := func(err error) func(*http.Request) ([]string, error) {
		return func(*http.Request) ([]string, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		resources func(*http.Request) ([]string, error)
		put, get  int // status with a token; for a GET without one, Resources is not called
	}{
		"no function":                    {nil, 500, 500},
		"an empty name":                  {names(""), 500, 500},
		"an empty name after a good":     {names("account/42", ""), 500, 500},
		"no names":                       {names(), 500, 204},
		"an error":                       {fails(context.DeadlineExceeded), 500, 500},
		"an error that sounds of tokens": {fails(fmt.Errorf("lookup: %w", token.ErrMissing)), 500, 500},
		"an error that blames the name":  {fails(token.ValidateResource("a\n")), 400, 400},
		"a name that cannot be one":      {names("account/\n"), 400, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: test.resources}), false)
			require.Equal(t, test.put, s.do("PUT", "/accounts/42", line("account/42", 9, "a")).status)
			require.Equal(t, test.get, s.do("GET", "/accounts/42", line("account/42", 9, "a")).status)
			require.Equal(t, http.StatusNoContent, s.do("GET", "/accounts/42").status)
		})
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		patterns []string
		path     string
		want     []string // nil: two paths would have one name
	}{
		"one value":                   {[]string{"account/{id}"}, "/a/42/7", []string{"account/42"}},
		"two values":                  {[]string{"t/{id}/account/{sub}"}, "/a/42/7", []string{"t/42/account/7"}},
		"a value alone":               {[]string{"{id}"}, "/a/42/7", []string{"42"}},
		"values side by side":         {[]string{"{id}{sub}."}, "/a/42/7", []string{"427."}},
		"no value":                    {[]string{"reports"}, "/a/42/7", []string{"reports"}},
		"two patterns":                {[]string{"x/{sub}", "x/{id}"}, "/a/42/7", []string{"x/7", "x/42"}},
		"values are taken as decoded": {[]string{"account/{id}"}, "/a/gr%C3%B6%2F%C3%9Fe/7", []string{"account/grö/ße"}},
		"two paths, two names":        {[]string{"a/{id}/{sub}"}, "/a/1/2", []string{"a/1/2"}},
		"a slash in the first value":  {[]string{"a/{id}/{sub}"}, "/a/1%2F2/3", nil},
		"a slash in the last value":   {[]string{"a/{id}/{sub}"}, "/a/1/2/3", nil},
		"a value with braces":         {[]string{"account/{id}"}, "/a/%7Bsub%7D/7", []string{"account/{sub}"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			var err error
			mux := http.NewServeMux()
			mux.HandleFunc("/a/{id}/{sub...}", func(_ http.ResponseWriter, r *http.Request) {
				got, err = httpguard.Pattern(test.patterns...)(r)
			})
			mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", test.path, nil))
			require.Equal(t, test.want == nil, errors.Is(err, token.ErrInvalid))
			require.Equal(t, test.want, got)
		})
	}
}

func TestPatternThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "account/{", "account/{}", "account/{id", "account/id}", "{a{b}}", "{id...}"} {
		require.Panics(t, func() { httpguard.Pattern(text) }, text)
	}
	require.Panics(t, func() { httpguard.Pattern() })
}
