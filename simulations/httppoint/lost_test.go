package httppoint_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations/httppoint"
	"github.com/fencepost/fencepost/token"
)

// The service has applied the request, and its caller gets an error.
func TestALostAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method string
		status int
		lost   bool
	}{
		"PUT":        {http.MethodPut, http.StatusOK, true},
		"POST":       {http.MethodPost, http.StatusCreated, true},
		"GET":        {http.MethodGet, http.StatusOK, false},
		"HEAD":       {http.MethodHead, http.StatusOK, false},
		"a refusal":  {http.MethodPut, http.StatusPreconditionFailed, false},
		"a redirect": {http.MethodPut, http.StatusNotModified, false},
		"an error":   {http.MethodPut, http.StatusInternalServerError, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var served atomic.Int32
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				served.Add(1)
				w.WriteHeader(c.status)
			}))
			t.Cleanup(service.Close) // waits for connections whose bodies are not closed
			h := hooktest.Record{DropReplies: true}
			client := &http.Client{Transport: httppoint.Transport{Base: service.Client().Transport}}
			req, err := http.NewRequestWithContext(h.Listen(t.Context()), c.method, service.URL, http.NoBody)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.EqualValues(t, 1, served.Load())
			require.Equal(t, []failpoint.Step{failpoint.Request, failpoint.Response}, h.Steps)
			if c.lost {
				require.ErrorIs(t, err, failpoint.ErrLost)
				require.Equal(t, []any{req}, h.ReplyKeys)
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Empty(t, h.ReplyKeys)
		})
	}
}

// The service does not get the request, and the caller cannot tell.
func TestALostRequest(t *testing.T) {
	t.Parallel()
	for method, lost := range map[string]bool{http.MethodPut: true, http.MethodGet: false} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var served atomic.Int32
			service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
			t.Cleanup(service.Close)
			h := hooktest.Record{DropCommits: true}
			client := &http.Client{Transport: httppoint.Transport{Base: service.Client().Transport}}
			req, err := http.NewRequestWithContext(h.Listen(t.Context()), method, service.URL, strings.NewReader("a body"))
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.Equal(t, []failpoint.Step{failpoint.Request, failpoint.Response}, h.Steps)
			if lost {
				require.ErrorIs(t, err, failpoint.ErrLost)
				require.Equal(t, []any{req}, h.CommitKeys)
				require.Zero(t, served.Load())
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.EqualValues(t, 1, served.Load())
			require.Empty(t, h.CommitKeys)
		})
	}
}

// Only one of two nested transports drops the request, in either order.
func TestARequestIsLostOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, httppoint.Handler)
	for name, transport := range s.around() {
		h := hooktest.Record{DropCommits: true}
		ctx := h.Listen(token.NewContext(t.Context(), token.Token{Resource: "account/42", Number: 33, Holder: "a"}))
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL, http.NoBody)
		require.NoError(t, err)
		_, err = (&http.Client{Transport: transport}).Do(req)
		require.ErrorIs(t, err, failpoint.ErrLost, name)
		require.Len(t, h.CommitKeys, 1, name)
		if name == "inside the guard's" {
			require.ErrorIs(t, err, guard.ErrUnknown, name)
		}
	}
}

// Only one of two nested transports drops the response, in either order.
func TestAnAnswerIsLostOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, httppoint.Handler)
	for name, transport := range s.around() {
		h := hooktest.Record{DropReplies: true}
		ctx := h.Listen(token.NewContext(t.Context(), token.Token{Resource: "account/42", Number: 33, Holder: "a"}))
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL, http.NoBody)
		require.NoError(t, err)
		_, err = (&http.Client{Transport: transport}).Do(req)
		require.ErrorIs(t, err, failpoint.ErrLost, name)
		<-s.done
		require.Len(t, h.ReplyKeys, 1, name)
		if name == "inside the guard's" {
			require.ErrorIs(t, err, guard.ErrUnknown, name)
		}
	}
}
