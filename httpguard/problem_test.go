package httpguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

func TestTheMarkIsNeverRevealed(t *testing.T) {
	t.Parallel()
	// hazard W3
	const number, holder = 179516977481431, "billing:7:1:c2f1"
	var marks guard.Memory
	require.NoError(t, marks.Admit(t.Context(), tok("account/42", number, holder)))

	// The naive server includes the mark in its response. The stale client copies it,
	// and is admitted.
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		toks, _ := httpguard.Parse(r.Header[httpguard.Header])
		if marks.Admit(r.Context(), toks[0]) != nil {
			w.WriteHeader(http.StatusPreconditionFailed)
			_ = json.NewEncoder(w).Encode(marks.Mark("account/42"))
		}
	})
	helped := serve(t, naive, false).do("PUT", "/", line("account/42", 1, "paused"))
	var told guard.Mark
	require.NoError(t, json.Unmarshal([]byte(helped.body), &told))
	require.NoError(t, marks.Admit(t.Context(), tok("account/42", told.Number, told.Holder)), "the copied mark is admitted")

	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: &marks}), false)
	stale := s.do("PUT", "/accounts/42", line("account/42", 1, "paused"))
	collision := s.do("PUT", "/accounts/42", line("account/42", number, "paused"))
	for _, got := range []reply{stale, collision} {
		require.Equal(t, http.StatusPreconditionFailed, got.status)
		all := fmt.Sprint(got.body, got.header)
		require.NotContains(t, all, strconv.Itoa(number))
		require.NotContains(t, all, holder)
	}
	require.Equal(t, stale.body, collision.body, "a distinct collision would reveal the number")
}

func TestNumbersInJSONAreStrings(t *testing.T) {
	t.Parallel()
	// hazard W7
	// The naive body has a number of sixteen digits, and its parser, like most,
	// stores numbers as doubles.
	var naive map[string]any
	require.NoError(t, json.Unmarshal([]byte(`{"number":9007199254740993}`), &naive))
	require.Equal(t, int64(9007199254740992), int64(naive["number"].(float64)), "another token's number")

	text, err := json.Marshal(map[string]token.Token{"token": tok("account/42", token.MaxNumber, "a")})
	require.NoError(t, err)
	var told map[string]any
	require.NoError(t, json.Unmarshal(text, &told))
	require.IsType(t, "", told["token"])
	require.Equal(t, float64(token.MaxNumber), float64(token.MaxNumber-1)+1, "even a double has room for it")

	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: at(t)}), false)
	for _, lines := range [][]string{nil, {"33"}, {line("account/42", 1, "b")}} {
		for key, value := range s.do("PUT", "/accounts/42", lines...).problem(t) {
			if key != "status" { // RFC 9457 §3.1.2 makes this one a number
				require.IsType(t, "", value, key)
			}
		}
	}
}

func TestClientsDoNotRepeatARefusal(t *testing.T) {
	t.Parallel()
	// hazard W6
	// Statuses that clients and proxies are known to retry by default.
	retried := []int{
		http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}
	attempts := func(s site) (n int) {
		for n < 3 {
			n++
			if !slices.Contains(retried, s.do("PUT", "/accounts/42", line("account/42", 1, "paused")).status) {
				break
			}
		}
		return n
	}
	naive := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) })
	require.Equal(t, 3, attempts(serve(t, naive, false)), "409 is sent again and again")

	marks := at(t)
	s := serve(t, (&bank{}).mux(httpguard.Middleware{Resources: accounts, Store: marks}), false)
	require.Equal(t, 1, attempts(s))
	for _, lines := range [][]string{nil, {"33"}} {
		require.NotContains(t, retried, s.do("PUT", "/accounts/42", lines...).status)
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	m := httpguard.Middleware{Resources: accounts, InFlight: &httpguard.InFlight{}}
	ctx, end := under(t, m)
	t.Cleanup(end)
	require.Equal(t, http.StatusServiceUnavailable, newer(t, m))
	cause := context.Cause(ctx)
	stale := &guard.StaleError{Token: tok("account/42", 1, "a"), Mark: guard.Mark{Number: 987654321, Holder: "secret"}}
	for name, test := range map[string]struct {
		err      error
		status   int
		typ      string
		resource any
	}{
		"stale":                   {fmt.Errorf("withdraw: %w", stale), 412, httpguard.ProblemStale, "account/42"},
		"stale, without a token":  {guard.ErrStale, 412, httpguard.ProblemStale, nil},
		"a collision":             {guard.ErrCollision, 412, httpguard.ProblemStale, nil},
		"stale, the lease lost":   {errors.Join(stale, token.ErrLost), 412, httpguard.ProblemStale, "account/42"},
		"missing":                 {&token.MissingError{Resource: "account/7", Have: []string{"secret"}}, 428, httpguard.ProblemMissing, "account/7"},
		"no valid signature":      {fmt.Errorf("%w: secret", token.ErrBadSignature), 403, httpguard.ProblemBadSignature, nil},
		"no such row":             {fmt.Errorf("%w: secret", guard.ErrRowNotFound), 404, "about:blank", nil},
		"invalid":                 {token.Token{}.Validate(), 400, httpguard.ProblemMalformed, nil},
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
		// A newer token has cancelled the handler: the response depends on the operation
		// that was interrupted.
		"cancelled, a call":                  {context.Canceled, 500, httpguard.ProblemUnknown, nil},
		"cancelled, a guard":                 {guard.WithCause(ctx, context.Canceled), 412, httpguard.ProblemStale, "account/42"},
		"cancelled, a guard that names why":  {guard.WithCause(ctx, fmt.Errorf("nothing was sent: %w", cause)), 412, httpguard.ProblemStale, "account/42"},
		"cancelled, the cause itself":        {cause, 500, httpguard.ProblemUnknown, nil},
		"cancelled, a guard in doubt":        {guard.WithCause(ctx, errors.Join(context.Canceled, guard.ErrUnknown)), 500, httpguard.ProblemUnknown, nil},
		"cancelled, a request":               {&url.Error{Op: "Put", URL: "http://x", Err: context.Canceled}, 500, httpguard.ProblemUnknown, nil},
		"cancelled, a request, and why":      {&url.Error{Op: "Put", URL: "http://x", Err: cause}, 500, httpguard.ProblemUnknown, nil},
		"cancelled, a request, refused":      {&url.Error{Op: "Put", URL: "http://x", Err: stale}, 412, httpguard.ProblemStale, "account/42"},
		"cancelled, nothing to do with that": {errors.New("no such table secret"), 500, "about:blank", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(name, "cancelled") {
					r = r.WithContext(ctx)
				}
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
