package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		patterns []string
		path     string
		want     []string
	}{
		"one value":                   {[]string{"account/{id}"}, "/a/42/7", []string{"account/42"}},
		"two values":                  {[]string{"t/{id}/account/{sub}"}, "/a/42/7", []string{"t/42/account/7"}},
		"a value alone":               {[]string{"{id}"}, "/a/42/7", []string{"42"}},
		"values side by side":         {[]string{"{id}{sub}."}, "/a/42/7", []string{"427."}},
		"no value":                    {[]string{"reports"}, "/a/42/7", []string{"reports"}},
		"two patterns":                {[]string{"x/{sub}", "x/{id}"}, "/a/42/7", []string{"x/7", "x/42"}},
		"values are taken as decoded": {[]string{"account/{id}"}, "/a/gr%C3%B6%2F%C3%9Fe/7", []string{"account/grö/ße"}},
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
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestPatternWithoutAPathValue(t *testing.T) {
	t.Parallel()
	got, err := httpguard.Pattern("reports", "account/{id}")(httptest.NewRequest("PUT", "/accounts/42", nil))
	require.Empty(t, got)
	require.EqualError(t, err, `httpguard: pattern "account/{id}": the path value id is empty: `+
		`mount the middleware around the handler of a route that has {id}, not around the router`)
}

func TestTwoPathsAreNotOneName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]error{"/a/1/2": nil, "/a/1%2F2/3": token.ErrInvalid, "/a/1/2/3": token.ErrInvalid} {
		var err error
		mux := http.NewServeMux()
		mux.HandleFunc("/a/{x}/{y...}", func(_ http.ResponseWriter, r *http.Request) {
			_, err = httpguard.Pattern("a/{x}/{y}")(r)
		})
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
		require.ErrorIs(t, err, want, path)
	}
}

func TestPatternThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "account/{", "account/{}", "account/{id", "account/id}", "{a{b}}", "{id...}"} {
		require.Panics(t, func() { httpguard.Pattern(text) }, text)
	}
	require.Panics(t, func() { httpguard.Pattern() })
}
