package httpguard_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
)

// stalledClient sends what it is given, and then neither sends nor reads, like a stopped
// process whose kernel still acknowledges packets.
func (o blockingSite) stalledClient(t *testing.T, fields, body string) {
	t.Helper()
	conn := o.dial()
	require.NoError(t, conn.SetReadBuffer(4<<10))
	_, err := fmt.Fprintf(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: %s\r\n%s\r\n%s",
		line("account/42", 34, "a"), fields, body)
	require.NoError(t, err)
}

// In each case the client stops sending, and the handler reads or responds until a newer
// token comes. W15: a handler responds without reading the body, and net/http reads the
// rest before it writes the header.
func TestAClientThatSleepsInTheMiddleOfItsBody(t *testing.T) {
	t.Parallel()
	// hazard W15
	reads := func(k *work) error {
		_, err := io.ReadAll(k.r.Body)
		return err
	}
	responds := func(k *work) error {
		k.w.WriteHeader(http.StatusBadRequest)
		_ = http.NewResponseController(k.w).Flush()
		return nil
	}
	for name, c := range map[string]struct {
		fields, body string // without fields: over HTTP/2
		does         func(*work) error
		ends         error
	}{
		"a body of known length":       {"Content-Length: 100\r\n", "half", reads, guard.ErrStale},
		"a body in chunks":             {"Transfer-Encoding: chunked\r\n", "half", reads, guard.ErrStale},
		"a body it asks for":           {"Content-Length: 100\r\nExpect: 100-continue\r\n", "half", reads, guard.ErrStale},
		"a body over HTTP/2":           {"", "half", reads, guard.ErrStale},
		"W15: a body that is not read": {"Content-Length: 5\r\n", "x", responds, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := open(t, c.fields == "")
			if c.fields != "" {
				o.stalledClient(t, c.fields, c.body)
			} else {
				o.stalledStream(t, c.body)
			}
			working := o.expect(t, 34)
			ended := make(chan error, 1)
			go working.finish(func() { ended <- c.does(working) })
			newer := o.put(35)
			require.ErrorIs(t, <-ended, c.ends, "the handler does not wait for the stalled client")
			o.expect(t, 35).leave()
			require.Equal(t, http.StatusNoContent, (<-newer).status)
		})
	}
}

// stalledStream is stalledClient over HTTP/2.
func (o blockingSite) stalledStream(t *testing.T, text string) {
	t.Helper()
	body, rest := io.Pipe()
	t.Cleanup(func() { rest.Close() })
	req := o.request(t.Context(), "PUT", "/accounts/42", body, line("account/42", 34, "a"))
	go func() {
		if resp, err := o.Client().Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	_, err := io.WriteString(rest, text)
	require.NoError(t, err)
}

func TestAClientThatDoesNotReadItsAnswer(t *testing.T) {
	t.Parallel()
	o := open(t, false, func(m *httpguard.Middleware) { m.WaitTimeout = 200 * time.Millisecond })
	o.stalledClient(t, "", "")
	writing := o.expect(t, 34)
	ended := make(chan error, 1)
	go writing.finish(func() {
		var err error
		for block := make([]byte, 1<<20); err == nil; {
			_, err = writing.w.Write(block)
		}
		ended <- err
	})
	newer := o.put(35)
	require.Error(t, <-ended, "its connection is given up")
	for {
		// On a busy machine the wait may end before the handler has returned.
		select {
		case got := <-newer:
			require.Equal(t, http.StatusServiceUnavailable, got.status)
			newer = o.put(35)
			continue
		case k := <-o.arrivals:
			k.leave()
		}
		require.Equal(t, http.StatusNoContent, (<-newer).status)
		return
	}
}

// A deadline that was set on the connection to end the older request does not affect the
// next one.
func TestTheConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]time.Duration{"a server without timeouts": 0, "a server with one": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := openWith(t, false, timeout, func(m *httpguard.Middleware) { m.WaitTimeout = time.Millisecond })
			conn := o.dial()
			ask := func(number int64) {
				_, err := fmt.Fprintf(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nFencing-Token: %s\r\n\r\n", line("account/42", number, "a"))
				require.NoError(t, err)
			}
			ask(34)
			older := o.expect(t, 34)
			require.Equal(t, http.StatusServiceUnavailable, (<-o.put(35)).status)
			older.dismissed(t)
			time.Sleep(10 * time.Millisecond) // half of WaitTimeout, after which writes fail, is over
			older.leave()
			answered(t, conn, http.StatusNoContent)
			ask(36)
			o.expect(t, 36).leave()
			answered(t, conn, http.StatusNoContent)
		})
	}
}
