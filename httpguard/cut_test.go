package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// cutService is a service that records the writes of each account, in order.
type cutService struct {
	mu     sync.Mutex
	writes map[string][]string
}

func (l *cutService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	if r.Method == http.MethodPut {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.writes[r.PathValue("id")] = append(l.writes[r.PathValue("id")], string(body))
	}
	w.WriteHeader(http.StatusNoContent)
}

func (l *cutService) of(account string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.writes[account], " ")
}

// cutConn breaks after a number of bytes were written or read since it was armed.
type cutConn struct {
	net.Conn
	armed          atomic.Bool
	writes, reads  atomic.Int64 // how many bytes may pass
	wrote, haveGot atomic.Int64
	reset          bool
}

func (c *cutConn) end() error {
	if tcp, ok := c.Conn.(*net.TCPConn); ok && c.reset {
		_ = tcp.SetLinger(0)
	}
	return errors.Join(io.ErrClosedPipe, c.Conn.Close())
}

func (c *cutConn) Write(p []byte) (int, error) {
	if !c.armed.Load() {
		return c.Conn.Write(p)
	}
	left := c.writes.Load() - c.wrote.Load()
	n, err := c.Conn.Write(p[:min(int64(len(p)), left)])
	c.wrote.Add(int64(n))
	if err == nil && n < len(p) {
		err = c.end()
	}
	return n, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.armed.Load() {
		return n, err
	}
	left := c.reads.Load() - c.haveGot.Load()
	c.haveGot.Add(int64(n))
	if err == nil && int64(n) > left {
		return int(left), c.end()
	}
	return n, err
}

// cut sends a write over an open connection that breaks.
func (s site) cut(account string, writes, reads int64, reset bool) (conn *cutConn, err error) {
	base := &http.Transport{
		TLSClientConfig: s.trust(), ForceAttemptHTTP2: s.EnableHTTP2,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			plain, err := new(net.Dialer).DialContext(ctx, network, address)
			if conn != nil || err != nil {
				return plain, err
			}
			conn = &cutConn{Conn: plain, reset: reset}
			conn.writes.Store(writes)
			conn.reads.Store(reads)
			return conn, nil
		},
	}
	defer base.CloseIdleConnections()
	client := &http.Client{Transport: httpguard.Transport{Base: base, Hosts: []string{s.Listener.Addr().String()}}}
	send := func(ctx context.Context, method, body string) error {
		req, err := http.NewRequestWithContext(ctx, method, s.URL+"/accounts/"+account, strings.NewReader(body))
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	if err := send(s.t.Context(), "GET", ""); err != nil {
		return conn, err
	}
	conn.armed.Store(true)
	return conn, send(token.NewContext(s.t.Context(), tok("account/"+account, 33, "a")), "PUT", "older")
}

// A connection is cut at each byte of a guarded write, and at each byte of its response.
// A write that was applied and not acknowledged is reported as unknown, nothing is
// applied twice or after a newer token, and no request keeps its slot.
func TestAConnectionThatIsCutAtEachByte(t *testing.T) {
	t.Parallel()
	bothVersions(t, func(t *testing.T, two bool) {
		l, inFlight := &cutService{writes: map[string][]string{}}, &httpguard.InFlight{}
		mux := http.NewServeMux()
		m := httpguard.Middleware{Resources: accounts, Store: new(guard.Memory), InFlight: inFlight, WaitTimeout: time.Minute}
		mux.Handle("/accounts/{id}", m.Wrap(l))
		s := serve(t, mux, two)
		const all = 1 << 20
		whole, err := s.cut("whole", all, all, false)
		require.NoError(t, err)
		var cuts sync.WaitGroup
		var unacknowledged, unapplied atomic.Int64
		slots := make(chan struct{}, 8)
		try := func(account string, writes, reads int64, reset bool) {
			slots <- struct{}{}
			cuts.Go(func() {
				defer func() { <-slots }()
				_, err := s.cut(account, writes, reads, reset)
				newer := s.try("/accounts/"+account, line("account/"+account, 34, "b"))
				assert.Equal(t, http.StatusNoContent, newer, account)
				switch got := l.of(account); {
				case got == "older " && err != nil:
					unacknowledged.Add(1)
					assert.ErrorIs(t, err, guard.ErrUnknown, account)
				case got == "" && err != nil:
					unapplied.Add(1)
				default:
					assert.True(t, got == "older " && err == nil, "%s: %q, %v", account, got, err)
				}
			})
		}
		for _, reset := range []bool{false, true} {
			for n := range whole.wrote.Load() + 1 {
				try(fmt.Sprintf("w%d-%v", n, reset), n, all, reset)
			}
			for n := range whole.haveGot.Load() + 1 {
				try(fmt.Sprintf("r%d-%v", n, reset), all, n, reset)
			}
		}
		cuts.Wait()
		require.Positive(t, unacknowledged.Load(), "a client that takes an error for a refusal would be wrong")
		require.Positive(t, unapplied.Load())
		require.Eventually(t, func() bool { return httpguard.Queues(inFlight) == 0 }, time.Minute, time.Millisecond)
		t.Logf("%d bytes and %d of the answer, each twice: %d applied without an answer, %d not applied",
			whole.wrote.Load(), whole.haveGot.Load(), unacknowledged.Load(), unapplied.Load())
	})
}

// Whatever a client sends after a header, nothing of an incomplete request is applied, and no
// request keeps its slot.
func TestStreamsThatEnd(t *testing.T) {
	t.Parallel()
	l, inFlight := &cutService{writes: map[string][]string{}}, &httpguard.InFlight{}
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", httpguard.Middleware{Resources: accounts, Store: new(guard.Memory), InFlight: inFlight}.Wrap(l))
	s := serve(t, mux, true)
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	block := func(account string) string {
		return headerFrames([][2]string{
			{":method", "PUT"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/accounts/" + account},
			{"fencing-token", line("account/"+account, 33, "a")},
		}, 0)[9:]
	}
	for name, end := range map[string]struct{ frames, written string }{
		"reset after the header":         {frame(frameReset, 0, 1, "\x00\x00\x00\x08"), ""},
		"reset in the body":              {frame(frameData, 0, 1, "old") + frame(frameReset, 0, 1, "\x00\x00\x00\x08"), ""},
		"gone in the body":               {frame(frameData, 0, 1, "old") + frame(frameGoAway, 0, 0, "\x00\x00\x00\x00\x00\x00\x00\x01"), ""},
		"a body after its end":           {frame(frameData, flagEnd, 1, "older") + frame(frameData, flagEnd, 1, "more"), "older"},
		"a length that is not its frame": {"\x00\xff\xff" + frame(frameData, flagEnd, 1, "older")[3:], ""},
		"a frame of another stream":      {frame(frameData, flagEnd, 3, "older"), ""},
		"a second header":                {frame(frameData, 0, 1, "old") + frame(frameHeaders, flagEndHeaders, 1, block("200")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			account := strings.ReplaceAll(name, " ", "-")
			conn := s.dialTLS()
			_, err := io.WriteString(conn, preface+frame(frameHeaders, flagEndHeaders, 1, block(account))+end.frames)
			require.NoError(t, err)
			require.NoError(t, conn.CloseWrite())
			_, _ = io.Copy(io.Discard, conn)
			require.NoError(t, conn.Close())
			newer := s.try("/accounts/"+account, line("account/"+account, 34, "b"))
			require.Equal(t, http.StatusNoContent, newer)
			got := l.of(account)
			require.Contains(t, []string{"", end.written + " "}, got, "a reset may come before the handler runs, and never makes it write a part")
		})
	}
	require.Eventually(t, func() bool { return httpguard.Queues(inFlight) == 0 }, time.Minute, time.Millisecond)
}
