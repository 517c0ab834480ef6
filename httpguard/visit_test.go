package httpguard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// under returns the context that a handler gets for one request under a token
// of 34, and what ends the request.
func under(t *testing.T, m httpguard.Middleware) (ctx context.Context, end func()) {
	t.Helper()
	ctxs, ending, ended := make(chan context.Context), make(chan struct{}), make(chan struct{})
	handler := m.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		ctxs <- r.Context()
		<-ending
	}))
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/accounts/42", nil)
	r.SetPathValue("id", "42")
	r.Header.Set(httpguard.Header, line("account/42", 34, "a"))
	go func() {
		defer close(ended)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}()
	select {
	case ctx := <-ctxs:
		return ctx, func() { close(ending); <-ended }
	case <-ended:
		require.Fail(t, "refused")
		return nil, nil
	}
}

// newer sends a request of 35 that does not wait.
func newer(t *testing.T, m httpguard.Middleware) int {
	t.Helper()
	m.Wait = time.Millisecond
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/accounts/42", nil)
	r.SetPathValue("id", "42")
	r.Header.Set(httpguard.Header, line("account/42", 35, "b"))
	w := httptest.NewRecorder()
	m.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
	return w.Code
}

func TestTheHandlersContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"one that can end": context.WithCancel,
		"itself": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return ctx, func() {}
		},
		"one with a value": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithValue(ctx, key{}, 1), func() {}
		},
		"one with a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Hour)
		},
		"one of another token": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return token.NewContext(ctx, tok("b", 1, "h")), func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}}
			ctx, end := under(t, m)
			derived, cancel := derive(ctx)
			defer cancel()
			require.NoError(t, derived.Err())
			require.NoError(t, context.Cause(derived))
			got, err := token.FromContext(derived, "account/42")
			require.NoError(t, err)
			require.EqualValues(t, 34, got.Number)
			after := make(chan struct{})
			context.AfterFunc(derived, func() { close(after) })

			require.Equal(t, http.StatusServiceUnavailable, newer(t, m))
			<-derived.Done()
			<-after
			require.Equal(t, context.Canceled, derived.Err())
			require.ErrorIs(t, context.Cause(derived), guard.ErrStale)
			end()
			require.ErrorIs(t, context.Cause(derived), guard.ErrStale, "the first cause stays")
		})
	}
}

func TestTheContextEndsWithTheHandler(t *testing.T) {
	t.Parallel()
	ctx, end := under(t, httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}})
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	end()
	require.Equal(t, context.Canceled, ctx.Err())
	require.Equal(t, context.Canceled, derived.Err())
	require.NotErrorIs(t, context.Cause(derived), guard.ErrStale)
}

func TestTheContextOfAHandlerThatHasReturned(t *testing.T) {
	t.Parallel()
	ctx, end := under(t, httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}})
	end()
	require.Equal(t, context.Canceled, ctx.Err(), "nobody had asked before")
	<-ctx.Done()
}

func TestTheContextIsAskedOnlyOnceItHasEnded(t *testing.T) {
	t.Parallel()
	m := httpguard.Middleware{Resources: accounts, Window: &httpguard.Window{}}
	ctx, end := under(t, m)
	defer end()
	require.Equal(t, http.StatusServiceUnavailable, newer(t, m))
	require.Equal(t, context.Canceled, ctx.Err())
	require.ErrorIs(t, context.Cause(ctx), guard.ErrStale)
	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	require.ErrorIs(t, context.Cause(derived), guard.ErrStale)
}

func TestTheContextIsPrintedWithoutItsSeals(t *testing.T) {
	t.Parallel()
	sealed, err := ring(t, "a").Seal(tok("account/42", 34, "a"), time.Time{})
	require.NoError(t, err)
	text, err := httpguard.FormatSealed(sealed)
	require.NoError(t, err)
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/accounts/42", nil)
	r.SetPathValue("id", "42")
	r.Header.Set(httpguard.Header, text)
	httpguard.Middleware{Resources: accounts}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x"} {
			printed := fmt.Sprintf(verb, r.Context())
			assert.Contains(t, printed, "account/42#34")
			assert.NotContains(t, printed, fmt.Sprintf("%d", sealed.Code[0:4])[1:])
			assert.NotContains(t, printed, fmt.Sprintf("%x", sealed.Code[0:4]))
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
}
