package httpguard_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// slowSite is a service that reports each request, and answers when the test lets it.
type slowSite struct {
	site
	arrived, answer chan struct{}
}

func everySlowSite(t *testing.T, test func(t *testing.T, s slowSite)) {
	t.Helper()
	bothVersions(t, func(t *testing.T, two bool) {
		s := slowSite{arrived: make(chan struct{}, 10), answer: make(chan struct{})}
		s.site = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.arrived <- struct{}{}
			select {
			case <-s.answer:
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "applied")
		}), two)
		test(t, s)
	})
}

// start sends a request that carries a token, and returns the channel of its result. If
// guarded is false, net/http's transport sends it.
func (s slowSite) start(ctx context.Context, method string, guarded bool) <-chan result {
	s.t.Helper()
	transport := s.Client().Transport
	if guarded {
		transport = httpguard.Transport{Base: transport, Hosts: []string{s.Listener.Addr().String()}}
	}
	req := s.request(token.NewContext(ctx, tok("account/42", 33, "a")), method, "/accounts/42", http.NoBody)
	done := make(chan result, 1)
	go func() {
		resp, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			done <- result{err: err}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		done <- result{string(body), err}
	}()
	return done
}

type result struct {
	body string
	err  error
}

// hazard G18
func TestTheLossOfTheLeaseDoesNotCutOffARequest(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: tok("account/42", 33, "a")}
	everySlowSite(t, func(t *testing.T, s slowSite) {
		ctx, cancel := context.WithCancelCause(t.Context())
		write := s.start(ctx, "PUT", true)
		cutOff := map[string]<-chan result{"a read": s.start(ctx, "GET", true), "the twin: net/http alone": s.start(ctx, "PUT", false)}
		for range 3 {
			<-s.arrived
		}
		cancel(lost)
		for name, done := range cutOff {
			require.Error(t, (<-done).err, name)
		}
		select {
		case r := <-write:
			t.Fatalf("it was cut off: %v", r.err)
		default:
		}
		close(s.answer)
		require.Equal(t, result{body: "applied"}, <-write)

		r := <-s.start(ctx, "PUT", true)
		require.ErrorIs(t, r.err, token.ErrLost)
		require.NotErrorIs(t, r.err, guard.ErrUnknown)
		require.Empty(t, s.arrived, "nothing was sent")
	})
}

func TestADeadlineCutsOffARequest(t *testing.T) {
	t.Parallel()
	everySlowSite(t, func(t *testing.T, s slowSite) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := (<-s.start(ctx, "PUT", true)).err
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if len(s.arrived) > 0 { // on a slow machine it may not arrive
			require.ErrorIs(t, err, guard.ErrUnknown)
		}
	})
}
