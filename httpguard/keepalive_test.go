package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The body has been read, so the server itself reads on behind it, to hear of
// the client's leaving. A deadline on the connection would be heard as that, and
// every later request on it would begin with a context that has ended.
func TestAConnectionSurvivesADismissal(t *testing.T) {
	t.Parallel()
	o := open(t, false)
	later := make(chan error, 1)
	o.mux.HandleFunc("GET /plain", func(_ http.ResponseWriter, r *http.Request) { later <- r.Context().Err() })
	conn, err := net.Dial("tcp", o.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	answers := bufio.NewReader(conn)
	_, err = fmt.Fprintf(conn, "PUT /accounts/42 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nFencing-Token: %s\r\n\r\nhi", line("account/42", 34, "a"))
	require.NoError(t, err)
	older := o.expect(t, 34)
	_, err = io.ReadAll(older.r.Body)
	require.NoError(t, err)
	newer := o.put(35)
	older.dismissed(t)
	_, err = older.r.Body.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err, "the connection is not asked")
	older.leave()
	o.expect(t, 35).leave()
	require.Equal(t, http.StatusNoContent, (<-newer).status)

	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.False(t, resp.Close)
	_, err = io.WriteString(conn, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, <-later)
}
