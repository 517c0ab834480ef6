package httpguard_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A naive limit is released after the handler's call, and not in a defer. After a panic
// it stays taken, and the next request waits for one that has ended.
func TestANaiveInFlightStaysTakenAfterAPanic(t *testing.T) {
	t.Parallel()
	// hazard W8
	busy := make(chan struct{}, 1)
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy <- struct{}{}
		next.ServeHTTP(w, r)
		<-busy
	}), false)
	_, err := s.Client().Get(s.URL)
	require.Error(t, err)
	require.Len(t, busy, 1, "taken for ever")
}

func TestAHijackedConnection(t *testing.T) {
	t.Parallel()
	o := open(t, false)
	conn := o.dial()
	_, err := io.WriteString(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: "+line("account/42", 34, "a")+"\r\n\r\n")
	require.NoError(t, err)
	socket := o.expect(t, 34)
	taken, buffered, err := http.NewResponseController(socket.w).Hijack()
	require.NoError(t, err)
	defer taken.Close()

	newer := o.put(35)
	socket.dismissed(t)
	o.waiting(t, 1)
	_, err = io.WriteString(buffered, "HTTP/1.1 204 No Content\r\n\r\n")
	require.NoError(t, err, "it can still write its answer")
	require.NoError(t, buffered.Flush())
	socket.finish(func() {})
	o.expect(t, 35).leave()
	require.Equal(t, http.StatusNoContent, (<-newer).status)
}

func TestAStreamIsCancelled(t *testing.T) {
	t.Parallel()
	overBothVersions(t, func(t *testing.T, o blockingSite) {
		req := o.request(t.Context(), "GET", "/accounts/42", nil, line("account/42", 34, "a"))
		streamed := make(chan string, 1)
		go func() {
			text := "no answer"
			if resp, err := o.Client().Do(req); err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				text = string(body)
			}
			streamed <- text
		}()
		stream := o.expect(t, 34)
		newer := o.put(35)
		stream.finish(func() {
			for stream.r.Context().Err() == nil {
				_, _ = io.WriteString(stream.w, "data\n")
				_ = http.NewResponseController(stream.w).Flush()
				time.Sleep(time.Millisecond)
			}
			_, _ = io.WriteString(stream.w, "gone\n")
		})
		o.expect(t, 35).leave()
		require.Equal(t, http.StatusNoContent, (<-newer).status)
		require.True(t, strings.HasSuffix(<-streamed, "gone\n"), "its end was delivered")
	})
}
