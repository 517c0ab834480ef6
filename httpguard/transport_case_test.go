package httpguard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/httpguard"
)

func TestTransportAndAFieldThatIsSetInAnotherCase(t *testing.T) {
	t.Parallel()
	const own, low = `7;r="c";h="h"`, "fencing-token"
	for name, test := range map[string]struct {
		ctx  context.Context
		url  string
		set  http.Header
		want http.Header
		err  error
	}{
		"the context carries nothing":    {t.Context(), "http://api.example", http.Header{low: {own}}, http.Header{low: {own}}, nil},
		"the context carries the same":   {holding(t.Context()), "http://api.example", http.Header{low: {both}}, http.Header{low: {both}}, nil},
		"the context carries others":     {holding(t.Context()), "http://api.example", http.Header{low: {own}}, nil, httpguard.ErrTwoSources},
		"both ways, one of them differs": {holding(t.Context()), "http://api.example", http.Header{low: {own}, httpguard.Header: {both}}, nil, httpguard.ErrTwoSources},
		"twice the same":                 {holding(t.Context()), "http://api.example", http.Header{low: {both}, "FENCING-TOKEN": {both}}, nil, httpguard.ErrTwoSources},
		"the host is not named":          {holding(t.Context()), "http://evil.example", http.Header{low: {own}, "FENCING-TOKEN": {own}, httpguard.Header: {own}, "X-Else": {"1"}}, http.Header{"X-Else": {"1"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(t, test.ctx, test.url)
			req.Header = test.set
			before := test.set.Clone()
			out, err := pass(t, req, "api.example")
			require.ErrorIs(t, err, test.err)
			require.Equal(t, before, req.Header, "the caller's request is not touched")
			if test.err == nil {
				require.Equal(t, test.want, out.Header)
			}
		})
	}
}

func TestARedirectDoesNotTakeAFieldOfAnotherCaseAlong(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get(httpguard.Header))
	}))
	t.Cleanup(elsewhere.Close)
	named := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(named.Close)
	u, err := url.Parse(named.URL)
	require.NoError(t, err)

	send := func(transport http.RoundTripper) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, named.URL, strings.NewReader(""))
		require.NoError(t, err)
		req.Header["fencing-token"] = []string{both}
		res, err := (&http.Client{Transport: transport}).Do(req)
		require.NoError(t, err)
		got, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return string(got)
	}
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	require.Empty(t, send(httpguard.Transport{Base: base, Hosts: []string{u.Host}}))
	require.Equal(t, both, send(base), "the twin: net/http copies it to wherever it is sent")
}
