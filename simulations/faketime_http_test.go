package simulations_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/paused"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// The handler is paused between its middleware, which has admitted the request,
// and its write.
//
// hazard W1
func TestInFakeTimeAHandlerThatIsPausedIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("its write has a guard of its own, and the late client is told 412", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, late := serveTwo(t, func(ctx context.Context) context.Context { return ctx })
			require.Equal(t, http.StatusPreconditionFailed, late)
			require.Zero(t, p.lost())
		})
	})
	t.Run("without one a unit is lost, and both clients are content", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p, late := serveTwo(t, point.Observe)
			require.Equal(t, http.StatusOK, late)
			require.Equal(t, 1, p.lost())
		})
	})
}

// serveTwo returns what the first of two clients was told, whose request is
// paused in the handler past the end of its lease, until the second's is done.
func serveTwo(t *testing.T, writing func(context.Context) context.Context) (p *purse, late int) {
	t.Helper()
	p = newPurse()
	mux, line := http.NewServeMux(), newPipes()
	guarded := httpguard.Middleware{
		Resources: httpguard.Pattern("account/{id}"), Store: &p.marks,
		DangerouslyWithoutWindow: true, // the two requests stand for two replicas: no window of theirs is one
	}
	mux.Handle("POST /{id}", guarded.Wrap(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen, pause := p.read(), r.FormValue("pause")
			d, _ := time.ParseDuration(pause)
			time.Sleep(d)
			if err := p.add(writing(r.Context()), pause, seen); err != nil {
				httpguard.Error(w, r, err)
			}
		})))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(line) })
	transport := &http.Transport{DialContext: line.dial}
	client := &http.Client{Transport: &httpguard.Transport{Base: transport, Hosts: []string{"bank"}}}
	iss := new(memtoken.Issuer)

	var first sync.WaitGroup
	first.Go(func() { late = post(t, client, iss, "A", "1m") })
	time.Sleep(time.Second) // A's request is in its handler
	require.Equal(t, http.StatusOK, post(t, client, iss, "B", "0s"))
	first.Wait()
	transport.CloseIdleConnections()
	require.NoError(t, server.Close())
	serving.Wait()
	return p, late
}

// post asks once under a lease that it does not renew.
func post(t *testing.T, client *http.Client, iss token.Issuer, holder, pause string) int {
	t.Helper()
	tok, err := paused.Short(iss)(t.Context(), resource, holder)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(token.NewContext(t.Context(), tok), http.MethodPost, "http://bank/42?pause="+pause, http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if errors.Is(err, guard.ErrStale) {
		return http.StatusPreconditionFailed
	}
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}
