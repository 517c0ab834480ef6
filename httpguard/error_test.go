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

func TestError(t *testing.T) {
	t.Parallel()
	stale := &guard.StaleError{Token: tok("account/42", 1, "a"), Mark: guard.Mark{Number: 987654321, Holder: "secret"}}
	for name, test := range map[string]struct {
		err      error
		status   int
		typ      string
		resource any
	}{
		"stale":                   {fmt.Errorf("withdraw: %w", stale), 412, httpguard.ProblemStale, "account/42"},
		"stale, untold by whom":   {guard.ErrStale, 412, httpguard.ProblemStale, nil},
		"a collision":             {guard.ErrCollision, 412, httpguard.ProblemStale, nil},
		"stale, the lease lost":   {errors.Join(stale, token.ErrLost), 412, httpguard.ProblemStale, "account/42"},
		"missing":                 {&token.MissingError{Resource: "account/7", Have: []string{"secret"}}, 428, httpguard.ProblemMissing, "account/7"},
		"no valid seal":           {fmt.Errorf("%w: secret", token.ErrSeal), 403, httpguard.ProblemSeal, nil},
		"no such row":             {fmt.Errorf("%w: secret", guard.ErrNoRow), 404, "about:blank", nil},
		"invalid":                 {token.Token{}.Check(), 400, httpguard.ProblemMalformed, nil},
		"retryable":               {fmt.Errorf("%w: SQLSTATE 40001 secret", guard.ErrRetryable), 503, httpguard.ProblemUnavailable, nil},
		"evicted":                 {fmt.Errorf("%w: SQLSTATE 57P01 secret", guard.ErrEvicted), 503, httpguard.ProblemUnavailable, nil},
		"unknown":                 {fmt.Errorf("%w: broken pipe to secret", guard.ErrUnknown), 500, httpguard.ProblemUnknown, nil},
		"unknown before all else": {errors.Join(stale, guard.ErrRetryable, guard.ErrUnknown), 500, httpguard.ProblemUnknown, nil},
		"claimed too late":        {guard.ErrClaimFirst, 500, "about:blank", nil},
		"released":                {token.ErrReleased, 500, "about:blank", nil},
		"the lease lost":          {token.ErrLost, 500, "about:blank", nil},
		"any other":               {errors.New("pq: password secret for user secret"), 500, "about:blank", nil},
		"the client gone":         {context.Canceled, 500, "about:blank", nil},
		"none":                    {nil, 500, "about:blank", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "3")
				w.Header().Set("Etag", `"x"`)
				w.Header().Set("Cache-Control", "max-age=60")
				httpguard.Error(w, r, test.err)
			}), false)
			got := s.do("PUT", "/")
			require.Equal(t, test.status, got.status)
			body := got.problem(t)
			require.Equal(t, test.typ, body["type"])
			require.Equal(t, test.resource, body["resource"])
			require.Equal(t, test.status == 503, got.header.Get("Retry-After") != "")
			require.Empty(t, got.header.Get("Etag"))
			require.NotContains(t, got.body, "secret")
			require.NotContains(t, got.body, "987654321")
		})
	}
}

func TestErrorLogsWhatItHides(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	report := func(err error) {
		httpguard.Error(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "PUT", "/", nil), err)
	}
	report(errors.New("hidden-from-the-client"))
	require.True(t, logged.has("hidden-from-the-client"))
	report(fmt.Errorf("%w: not-worth-a-line", guard.ErrStale))
	require.False(t, logged.has("not-worth-a-line"), "a refusal hides nothing")
	cancel()
	report(fmt.Errorf("left-by-the-client: %w", context.Canceled))
	require.False(t, logged.has("left-by-the-client"))
}
