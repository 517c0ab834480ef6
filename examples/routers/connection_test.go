package routers_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// wrappings are guards under which a handler must still reach its connection: the plain
// one, and one that wraps the writer to read the status.
var wrappings = map[string]func(t *testing.T) httpguard.Middleware{
	"plain": func(*testing.T) httpguard.Middleware { return guarded(&guard.Memory{}) },
	"with OnUnusedToken": func(t *testing.T) httpguard.Middleware {
		m := guarded(&guard.Memory{})
		m.OnUnusedToken = func(_ *http.Request, tok token.Token) { t.Errorf("%v was not used", tok) }
		return m
	},
}

func spend(t *testing.T, r *http.Request) {
	_, err := token.FromContext(r.Context(), "account/42")
	assert.NoError(t, err)
}

func TestAHandlerReachesItsConnection(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router, two bool) {
		for name, wrapping := range wrappings {
			t.Run(name+", to flush and to set deadlines", func(t *testing.T) {
				t.Parallel()
				seen := make(chan struct{})
				s := serve(t, r.route(wrapping(t).Wrap, func(w http.ResponseWriter, r *http.Request) {
					spend(t, r)
					control := http.NewResponseController(w)
					assert.NoError(t, control.SetReadDeadline(time.Now()))
					_, err := io.ReadAll(r.Body)
					assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
					_, err = io.WriteString(w, "first")
					assert.NoError(t, errors.Join(err, control.Flush()))
					<-seen
				}), two)
				body, stall := io.Pipe()
				defer stall.Close()
				resp, err := s.Client().Do(request(t, s, transfer, body, line("account/42", 33)))
				require.NoError(t, err)
				defer resp.Body.Close()
				_, err = io.ReadFull(resp.Body, make([]byte, len("first")))
				close(seen)
				require.NoError(t, err)
			})
			t.Run(name+", to hijack it", func(t *testing.T) {
				t.Parallel()
				s := serve(t, r.route(wrapping(t).Wrap, func(w http.ResponseWriter, r *http.Request) {
					spend(t, r)
					conn, _, err := http.NewResponseController(w).Hijack()
					if r.ProtoMajor == 2 {
						assert.ErrorIs(t, err, http.ErrNotSupported)
						return
					}
					if assert.NoError(t, err) {
						_, err = io.WriteString(conn, "HTTP/1.1 299 Taken\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
						assert.NoError(t, errors.Join(err, conn.Close()))
					}
				}), two)
				want := map[bool]int{false: 299, true: http.StatusOK}[two]
				require.Equal(t, want, put(t, s, transfer, "", line("account/42", 33)).status)
				require.Equal(t, want, put(t, s, transfer, "", line("account/42", 34)).status, "the slot is free again")
			})
		}
	})
}

// hiding is a wrapper of the writer without Unwrap, such as a counter of statuses.
type hiding struct{ http.ResponseWriter }

// A client that stops in the middle of its body blocks its handler in a read. A newer
// token ends the read through all of the router's wrappers of the writer.
func TestAStalledClientBlocksNoNewerRequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, r router, two bool) {
		newer := func(m httpguard.Middleware, wrap middleware) (newer, older reply) {
			reading := make(chan struct{}, 1)
			s := serve(t, wrap(r.route(m.Wrap, func(w http.ResponseWriter, r *http.Request) {
				reading <- struct{}{}
				if _, err := io.ReadAll(r.Body); err != nil {
					httpguard.Error(w, r, err)
				}
			})), two)
			body, stall := io.Pipe()
			req, done := request(t, s, transfer, body, line("account/42", 33)), make(chan reply)
			go func() {
				var got reply
				if resp, err := s.Client().Do(req); err == nil {
					got.status = resp.StatusCode
					resp.Body.Close()
				}
				done <- got
			}()
			<-reading
			newer = put(t, s, transfer, "", line("account/42", 34))
			require.NoError(t, stall.Close())
			return newer, <-done
		}
		// The naive wrapper has no Unwrap: the older handler's read cannot be ended.
		naive := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(hiding{w}, r) })
		}
		twin := func() (got, older reply) {
			m := guarded(&guard.Memory{}) // each try has marks of its own, otherwise the older token would be stale
			m.WaitTimeout = 50 * time.Millisecond
			return newer(m, naive)
		}
		got, older := twin()
		for tries := 0; got.status == http.StatusOK && tries < 20; tries++ {
			got, older = twin() // if the handler was not in its read yet, the read fails at once
		}
		require.Equal(t, http.StatusServiceUnavailable, got.status)
		require.Equal(t, http.StatusOK, older.status)

		m := guarded(&guard.Memory{})
		m.WaitTimeout = time.Hour
		got, older = newer(m, none)
		require.Equal(t, http.StatusOK, got.status)
		require.Equal(t, http.StatusPreconditionFailed, older.status)
	})
}
