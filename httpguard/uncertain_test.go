package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestARequestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	applied := make(chan struct{}, 1)
	service := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case applied <- struct{}{}:
		default:
		}
		panic(http.ErrAbortHandler) // the connection breaks, and the work is done
	}), false)
	u, err := url.Parse(service.URL)
	require.NoError(t, err)
	nobody := httptest.NewServer(nil)
	nobody.Close()
	left, leave := context.WithCancel(holding(t.Context()))
	leave()
	for name, c := range map[string]struct {
		ctx         context.Context
		method, url string
		unknown     bool
	}{
		"a write under a token":           {holding(t.Context()), "PUT", service.URL, true},
		"a read under a token":            {holding(t.Context()), "GET", service.URL, false},
		"a write without a token":         {t.Context(), "PUT", service.URL, false},
		"a server that is not there":      {holding(t.Context()), "PUT", nobody.URL, false},
		"a caller that had left":          {left, "PUT", service.URL, false},
		"a host that is sent no token to": {holding(t.Context()), "PUT", service.URL + "/elsewhere", false},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := []string{u.Host, nobody.Listener.Addr().String()}
			if name == "a host that is sent no token to" {
				hosts = nil
			}
			client := &http.Client{Transport: httpguard.Transport{Base: service.Client().Transport, Hosts: hosts}}
			req, err := http.NewRequestWithContext(c.ctx, c.method, c.url, http.NoBody)
			require.NoError(t, err)
			_, err = client.Do(req)
			require.Error(t, err)
			require.Equal(t, c.unknown, errors.Is(err, guard.ErrUnknown), "%v", err)
		})
	}
	require.NotEmpty(t, applied)
}

// What a handler was interrupted in decides what its own caller is told.
func TestErrorsOfAHandlerThatWasToldToGo(t *testing.T) {
	t.Parallel()
	m := httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}}
	ctx, end := under(t, m)
	defer end()
	require.Equal(t, http.StatusServiceUnavailable, newer(t, m))
	cause := context.Cause(ctx)
	for name, c := range map[string]struct {
		err error
		typ string
	}{
		"somebody who was cancelled":              {context.Canceled, httpguard.ProblemUnknown},
		"a guard that was cancelled":              {guard.WithLoss(ctx, context.Canceled), httpguard.ProblemStale},
		"a guard that says why it was":            {guard.WithLoss(ctx, fmt.Errorf("nothing was sent: %w", cause)), httpguard.ProblemStale},
		"the cause itself":                        {cause, httpguard.ProblemUnknown},
		"a guard that is not sure":                {guard.WithLoss(ctx, errors.Join(context.Canceled, guard.ErrUnknown)), httpguard.ProblemUnknown},
		"a request that was cut off":              {&url.Error{Op: "Put", URL: "http://x", Err: context.Canceled}, httpguard.ProblemUnknown},
		"a request that was cut off, and why":     {&url.Error{Op: "Put", URL: "http://x", Err: cause}, httpguard.ProblemUnknown},
		"a request that was refused further on":   {&url.Error{Op: "Put", URL: "http://x", Err: &guard.StaleError{Token: token.Token{}}}, httpguard.ProblemStale},
		"an error that has nothing to do with it": {errors.New("no such table"), "about:blank"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			httpguard.Error(w, httptest.NewRequestWithContext(ctx, "PUT", "/accounts/42", nil), c.err)
			require.Contains(t, w.Body.String(), `"type":"`+c.typ+`"`)
		})
	}
}
