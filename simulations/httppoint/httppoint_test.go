package httppoint_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations/httppoint"
	"github.com/fencepost/fencepost/token"
)

// service is guarded, and part of the simulation unless that is left out. It counts the
// requests.
type service struct {
	*httptest.Server
	marks guard.Memory
	done  chan string
}

func serve(t *testing.T, mount func(http.Handler) http.Handler) *service {
	t.Helper()
	s := &service{done: make(chan string, 10)}
	guarded := httpguard.Middleware{
		Resources: func(*http.Request) ([]string, error) { return []string{"account/42"}, nil },
		Store:     &s.marks,
	}.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.done <- string(body)
	}))
	s.Server = httptest.NewServer(mount(guarded))
	t.Cleanup(s.Close)
	return s
}

func plainly(next http.Handler) http.Handler { return next }

// put sends a request under a token of that number, and returns the status.
func (s *service) put(t *testing.T, ctx context.Context, transport http.RoundTripper, number int64) int {
	t.Helper()
	ctx = token.NewContext(ctx, token.Token{Resource: "account/42", Number: number, Holder: "a"})
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, s.URL, strings.NewReader("body"))
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.Empty(t, req.Header, "a RoundTripper must not change the request")
	if errors.Is(err, guard.ErrStale) {
		return http.StatusPreconditionFailed
	}
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// around are the two orders of the transports.
func (s *service) around() map[string]http.RoundTripper {
	hosts := []string{s.Listener.Addr().String()}
	return map[string]http.RoundTripper{
		"inside the guard's": httpguard.Transport{Hosts: hosts, Base: httppoint.Transport{Base: s.Client().Transport}},
		"around the guard's": httppoint.Transport{Base: httpguard.Transport{Hosts: hosts, Base: s.Client().Transport}},
	}
}

func TestASimulationReachesThroughHTTP(t *testing.T) {
	t.Parallel()
	s := serve(t, httppoint.Handler)
	for name, transport := range s.around() {
		t.Run(name, func(t *testing.T) {
			var h hooktest.Record
			ctx := h.Listen(t.Context())
			h.OnStep = func(step failpoint.Step) {
				if step == failpoint.Request || step == failpoint.Admitted {
					require.Empty(t, s.done, "nothing has been written yet")
				}
			}
			require.Equal(t, 200, s.put(t, ctx, transport, 33))
			require.Equal(t, "body", <-s.done)
			steps := h.StepsSoFar()
			require.ElementsMatch(t, []failpoint.Step{failpoint.Request, failpoint.Admitted, failpoint.Response, failpoint.Response}, steps, "once each")
			require.Equal(t, []failpoint.Step{failpoint.Request, failpoint.Admitted}, steps[:2])
		})
		t.Run(name+", the unguarded twin is let through", func(t *testing.T) {
			require.Equal(t, 200, s.put(t, t.Context(), transport, 33))
			<-s.done
			require.Equal(t, 412, s.put(t, t.Context(), transport, 32))
			require.Empty(t, s.done)
			require.Equal(t, 200, s.put(t, failpoint.Unguarded(t.Context()), transport, 32))
			<-s.done
		})
	}
	t.Run("without the handler nothing arrives", func(t *testing.T) {
		s := serve(t, plainly)
		for _, transport := range s.around() {
			var h hooktest.Record
			require.Equal(t, 200, s.put(t, t.Context(), transport, 33))
			require.Equal(t, 412, s.put(t, failpoint.Unguarded(h.Listen(t.Context())), transport, 32))
			require.Equal(t, []failpoint.Step{failpoint.Request, failpoint.Response}, h.Steps)
		}
	})
}

func TestAnIDThatIsNotKnownMeansNothing(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "made up", "true", "*"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set(httppoint.Header, id)
		var served *http.Request
		httppoint.Handler(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
			served = got
		})).ServeHTTP(httptest.NewRecorder(), r)
		require.Same(t, r, served)
	}
}

func TestOutsideOfASimulationTheRequestIsSentAsItIs(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	_, err := httppoint.Transport{Base: tripFunc(func(got *http.Request) (*http.Response, error) {
		require.Same(t, req, got)
		return nil, io.ErrUnexpectedEOF
	})}.RoundTrip(req)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestIdleConnectionsAreClosedBelow(t *testing.T) {
	t.Parallel()
	below := &closer{}
	(&http.Client{Transport: httppoint.Transport{Base: below}}).CloseIdleConnections()
	require.True(t, below.closed)
	httppoint.Transport{Base: tripFunc(nil)}.CloseIdleConnections() // without that method
}

type tripFunc func(*http.Request) (*http.Response, error)

func (f tripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type closer struct {
	tripFunc
	closed bool
}

func (c *closer) CloseIdleConnections() { c.closed = true }
