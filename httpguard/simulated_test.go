package httpguard_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

func TestTransportTellsOfItsRequest(t *testing.T) {
	t.Parallel()
	t.Run("before it is sent, and when its answer is there", func(t *testing.T) {
		t.Parallel()
		var h heard.Record
		req := request(t, h.Listen(holding(t.Context())), "http://api.example")
		transport := httpguard.Transport{Hosts: []string{"api.example"}, Base: tripFunc(func(out *http.Request) (*http.Response, error) {
			require.Equal(t, []point.Step{point.Request}, h.Steps)
			require.Equal(t, h.Keys[0], point.Key(out.Context()), "for those below")
			require.Equal(t, both, out.Header.Get(httpguard.Header))
			return nil, io.ErrUnexpectedEOF
		})}
		_, err := transport.RoundTrip(req)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, []point.Step{point.Request, point.Response}, h.Steps)
		require.Equal(t, h.Keys[0], h.Keys[1])
	})
	t.Run("not of one that was not sent", func(t *testing.T) {
		t.Parallel()
		var h heard.Record
		_, err := pass(t, request(t, h.Listen(token.NewContext(t.Context(), token.Token{})), "http://api.example"), "api.example")
		require.Error(t, err)
		require.Empty(t, h.Steps)
	})
	t.Run("nobody listens: the request is not copied", func(t *testing.T) {
		t.Parallel()
		req := request(t, t.Context(), "http://api.example")
		out, err := pass(t, req, "api.example")
		require.NoError(t, err)
		require.Same(t, req, out)
	})
}

func TestMiddlewareTellsOfWhatItAdmits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field string
		steps []point.Step
	}{
		"a newer token":   {line("account/42", 34, "b"), []point.Step{point.Admitted, point.Response}},
		"a stale token":   {line("account/42", 32, "b"), nil},
		"a missing token": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h heard.Record
			marks, mark, seen := at(t), int64(0), []point.Step(nil)
			handler := httpguard.Middleware{Resources: accounts, Store: marks}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				seen, mark = slices.Clone(h.Steps), marks.Mark("account/42").Number
			}))
			r := httptest.NewRequestWithContext(h.Listen(t.Context()), "PUT", "/accounts/42", nil)
			r.SetPathValue("id", "42")
			if c.field != "" {
				r.Header.Set(httpguard.Header, c.field)
			}
			handler.ServeHTTP(httptest.NewRecorder(), r)
			require.Equal(t, c.steps, h.Steps)
			if c.steps != nil {
				require.Equal(t, []point.Step{point.Admitted}, seen, "while the handler ran")
				require.EqualValues(t, 34, mark)
			}
			require.Equal(t, len(c.steps) > 0, len(h.Keys) == 2 && h.Keys[0] == h.Keys[1])
		})
	}
}

func TestAnUnguardedTwinPassesInSilence(t *testing.T) {
	t.Parallel()
	const down = "the twin's store is down"
	for name, c := range map[string]struct {
		field string
		store guard.Store
	}{
		"a stale token":        {line("account/42", 17, "twin"), nil},
		"a collision":          {line("account/42", 33, "twin"), nil},
		"no token":             {"", nil},
		"a malformed field":    {"twin", nil},
		"a store that is down": {line("account/42", 34, "twin"), storeDown(down)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.store == nil {
				c.store = at(t)
			}
			var b bank
			serve := func(ctx context.Context) int {
				r := httptest.NewRequestWithContext(ctx, "PUT", "/accounts/42", nil)
				if c.field != "" {
					r.Header.Set(httpguard.Header, c.field)
				}
				w := httptest.NewRecorder()
				b.mux(httpguard.Middleware{Resources: accounts, Store: c.store}).ServeHTTP(w, r)
				return w.Code
			}
			require.Equal(t, http.StatusNoContent, serve(point.Observe(t.Context())))
			require.Len(t, b.written(), 1)
			require.False(t, logged.has(`unjudged" error="`+down))
			require.False(t, logged.has(`would have refused" error="guard: stale token account/42#17`))
			require.GreaterOrEqual(t, serve(t.Context()), 400)
			require.Len(t, b.written(), 1)
		})
	}
}
