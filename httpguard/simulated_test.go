package httpguard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/token"
)

func TestTransportReportsItsRequest(t *testing.T) {
	t.Parallel()
	t.Run("before it is sent, and when its answer is there", func(t *testing.T) {
		t.Parallel()
		var h hooktest.Record
		req := request(t, h.Listen(holding(t.Context())), "http://api.example")
		transport := httpguard.Transport{Hosts: []string{"api.example"}, Base: tripFunc(func(out *http.Request) (*http.Response, error) {
			require.Equal(t, []failpoint.Step{failpoint.Request}, h.Steps)
			require.Equal(t, h.Keys[0], failpoint.Key(out.Context()), "for those below")
			require.Equal(t, both, out.Header.Get(httpguard.Header))
			return nil, io.ErrUnexpectedEOF
		})}
		_, err := transport.RoundTrip(req)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, []failpoint.Step{failpoint.Request, failpoint.Response}, h.Steps)
		require.Equal(t, h.Keys[0], h.Keys[1])
	})
	t.Run("not of one that was not sent", func(t *testing.T) {
		t.Parallel()
		var h hooktest.Record
		_, err := pass(t, request(t, h.Listen(token.NewContext(t.Context(), token.Token{})), "http://api.example"), "api.example")
		require.Error(t, err)
		require.Empty(t, h.Steps)
	})
	t.Run("without a listener the request is not copied", func(t *testing.T) {
		t.Parallel()
		req := request(t, t.Context(), "http://api.example")
		out, err := pass(t, req, "api.example")
		require.NoError(t, err)
		require.Same(t, req, out)
	})
}

func TestMiddlewareReportsWhatItAdmits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		field string
		steps []failpoint.Step
	}{
		"a newer token":   {line("account/42", 34, "b"), []failpoint.Step{failpoint.Admitted, failpoint.Response}},
		"a stale token":   {line("account/42", 32, "b"), nil},
		"a missing token": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h hooktest.Record
			marks, mark, seen := at(t), int64(0), []failpoint.Step(nil)
			handler := httpguard.Middleware{Resources: accounts, Store: marks}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				seen, mark = slices.Clone(h.Steps), marks.Mark("account/42").Number
			}))
			handler.ServeHTTP(httptest.NewRecorder(), matched(h.Listen(t.Context()), nil, c.field))
			require.Equal(t, c.steps, h.Steps)
			if c.steps != nil {
				require.Equal(t, []failpoint.Step{failpoint.Admitted}, seen, "while the handler ran")
				require.EqualValues(t, 34, mark)
			}
			require.Equal(t, len(c.steps) > 0, len(h.Keys) == 2 && h.Keys[0] == h.Keys[1])
		})
	}
}

// counted is a body that counts how often it was closed.
type counted struct {
	io.ReadCloser
	closed *atomic.Int32
}

func (c counted) Close() error {
	c.closed.Add(1)
	return c.ReadCloser.Close()
}

// A simulation can drop the response to a request: the service has applied it, and the
// caller's error is that the outcome is unknown.
func TestALostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	everyProtocol(t, func() http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, err := strconv.Atoi(r.URL.Query().Get("status"))
			if err != nil { // the first, by which the site looks which protocol it is
				return
			}
			if status == http.StatusPreconditionFailed {
				w.Header().Set("Content-Type", "application/problem+json")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, r.URL.Query().Get("body"))
		})
	}, func(t *testing.T, s site) {
		stale := url.QueryEscape(`{"type":"` + httpguard.ProblemStale + `"}`)
		for name, c := range map[string]struct {
			method, query string
			under, lost   bool
			is            error
		}{
			"PUT":                     {"PUT", "status=200&body=done", true, true, guard.ErrUnknown},
			"DELETE":                  {"DELETE", "status=204", true, true, guard.ErrUnknown},
			"a stale token":           {"PUT", "status=412&body=" + stale, true, false, guard.ErrStale},
			"another precondition":    {"PUT", "status=412&body={}", true, false, nil},
			"an error of the service": {"PUT", "status=500", true, false, nil},
			"GET":                     {"GET", "status=200", true, false, nil},
			"PUT, without a token":    {"PUT", "status=200", false, false, nil},
		} {
			t.Run(name, func(t *testing.T) {
				var opened, closed atomic.Int32
				base := tripFunc(func(req *http.Request) (*http.Response, error) {
					resp, err := s.Client().Transport.RoundTrip(req)
					if err == nil {
						opened.Add(1)
						resp.Body = counted{resp.Body, &closed}
					}
					return resp, err
				})
				h := hooktest.Record{DropReplies: true}
				ctx := h.Listen(t.Context())
				if c.under {
					ctx = holding(ctx)
				}
				req, err := http.NewRequestWithContext(ctx, c.method, s.URL+"?"+c.query, http.NoBody)
				require.NoError(t, err)
				resp, err := httpguard.Transport{Base: base, Hosts: []string{req.URL.Host}}.RoundTrip(req)
				require.ErrorIs(t, err, c.is)
				if err == nil {
					require.NoError(t, resp.Body.Close())
				}
				if c.lost {
					require.Equal(t, []any{req}, h.ReplyKeys)
				} else {
					require.Empty(t, h.ReplyKeys)
				}
				require.EqualValues(t, 1, opened.Load(), "it is applied")
				require.EqualValues(t, 1, closed.Load(), "the body")
				require.Equal(t, []failpoint.Step{failpoint.Request, failpoint.Response}, h.Steps)
			})
		}
	})
}

// If two transports are nested, the outer one reports the request and drops the response.
func TestAnAnswerIsLostOnce(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(service.Close)
	h := hooktest.Record{DropReplies: true}
	req := request(t, failpoint.WithKey(h.Listen(holding(t.Context())), "another"), service.URL)
	resp, err := httpguard.Transport{Base: service.Client().Transport, Hosts: []string{req.URL.Host}}.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, h.ReplyKeys)
	require.Empty(t, h.Steps)
}
