package httpguard_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"an ordinary error":                   errors.New("dial tcp 10.0.0.7:5432: refused, fails-ordinary"),
		"an admission whose outcome is not":   guard.ErrUnknown,
		"a mistake in the store":              guard.ErrClaimFirst,
		"an error that the next try may mend": guard.ErrRetryable,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{}
			store := storeFunc(func(context.Context, token.Token) error { return failure })
			s := serve(t, b.mux(httpguard.Middleware{Resources: accounts, Store: store}), false)
			got := s.do("PUT", "/accounts/42", line("account/42", 1, "a"))
			require.Equal(t, http.StatusServiceUnavailable, got.status)
			require.Equal(t, "1", got.header.Get("Retry-After"))
			require.Equal(t, httpguard.ProblemUnavailable, got.problem(t)["type"])
			require.NotContains(t, got.body, failure.Error(), "the error is not the client's business")
			require.True(t, logged.has(failure.Error()), "somebody must hear of it")
			require.Empty(t, b.written())
			require.Equal(t, http.StatusNoContent, s.do("GET", "/accounts/42").status, "nobody is asked about reads")
		})
	}
}

func TestObserverHearsRefusals(t *testing.T) {
	t.Parallel()
	var heard atomic.Pointer[error]
	guarded := httpguard.Middleware{Resources: accounts, Store: at(t), Observer: guard.Observer{
		Refused: func(_ context.Context, err error) { heard.Store(&err) },
	}}
	s := serve(t, (&bank{}).mux(guarded), false)
	for want, field := range map[error]string{
		guard.ErrStale:     line("account/42", 1, "a"),
		guard.ErrCollision: line("account/42", 33, "b"),
		token.ErrMissing:   line("account/7", 1, "a"),
		token.ErrInvalid:   "33",
	} {
		s.do("PUT", "/accounts/42", field)
		require.ErrorIs(t, *heard.Swap(nil), want)
	}
	s.do("PUT", "/accounts/42", line("account/42", 34, "a"))
	require.Nil(t, heard.Load(), "an admission is no refusal")
}

func TestObserveOnlyAnswersNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		m     httpguard.Middleware
		path  string
		lines []string
		want  error  // what Observed hears
		log   string // what the log has
		wrote string
	}{
		"a stale token": {
			m:     httpguard.Middleware{Resources: accounts, Store: at(t)},
			lines: []string{line("account/42", 1, "b")}, want: guard.ErrStale, wrote: "PUT account/42#1"},
		"no token": {
			m:    httpguard.Middleware{Resources: accounts, Store: at(t)},
			want: token.ErrMissing, wrote: "PUT"},
		"a malformed field, of which no token is used": {
			m:     httpguard.Middleware{Resources: accounts, Store: at(t)},
			lines: []string{line("account/42", 34, "b"), "7"}, want: token.ErrInvalid, wrote: "PUT"},
		"a store that fails": {
			m:     httpguard.Middleware{Resources: accounts, Store: storeDown("down-while-observing")},
			lines: []string{line("account/42", 34, "b")}, log: "down-while-observing", wrote: "PUT account/42#34"},
		"resources that are not known": {
			m:     httpguard.Middleware{Resources: httpguard.Pattern("account/{unknown-while-observing}")},
			lines: []string{line("account/42", 34, "b")}, log: "unknown-while-observing", wrote: "PUT account/42#34"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var heard []error
			b := &bank{}
			test.m.DangerouslyObserve = true
			test.m.Observer.Observed = func(_ context.Context, err error) { heard = append(heard, err) }
			test.m.Observer.Refused = func(_ context.Context, err error) { t.Errorf("refused: %v", err) }
			s := serve(t, b.mux(test.m), false)
			require.Equal(t, http.StatusNoContent, s.do("PUT", "/accounts/42", test.lines...).status)
			s.Close()
			require.Equal(t, []string{test.wrote}, b.written())
			if test.want != nil {
				require.Len(t, heard, 1)
				require.ErrorIs(t, heard[0], test.want)
			}
			require.True(t, logged.has(test.log))
		})
	}
}
