package testenv

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// FlakyServer is a service that applies the writes it receives. After the first write it
// breaks the connection or stream without an answer, as a killed process does. It answers
// the others with 200.
type FlakyServer struct {
	URL string

	mu     sync.Mutex
	writes int
}

// Applied returns how many writes were applied.
func (f *FlakyServer) Applied() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func (f *FlakyServer) write() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes++
	return f.writes
}

func startFlaky(t testing.TB, scheme string, listener net.Listener, serve func(f *FlakyServer, conn net.Conn)) *FlakyServer {
	t.Helper()
	f := &FlakyServer{URL: scheme + "://" + listener.Addr().String()}
	var accepting, serving sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			serving.Go(func() {
				defer conn.Close()
				serve(f, conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
		// A client's connection can outlive its CloseIdleConnections: it becomes idle
		// only after the transport's own goroutine has ended its last stream.
		for _, conn := range conns {
			conn.Close()
		}
		serving.Wait()
	})
	return f
}

// Flaky returns a FlakyServer for HTTP/1.1.
func Flaky(t testing.TB) *FlakyServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return startFlaky(t, "http", listener, func(f *FlakyServer, conn net.Conn) {
		for requests := bufio.NewReader(conn); ; {
			r, err := http.ReadRequest(requests)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if r.Method != http.MethodGet && f.write() == 1 {
				return
			}
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
}

// FlakyHTTP2 returns a FlakyServer for HTTP/2 over TLS. It resets the first write's
// stream with PROTOCOL_ERROR. Only REFUSED_STREAM guarantees that nothing was applied
// (RFC 9113 §8.7).
func FlakyHTTP2(t testing.TB, certificate tls.Certificate) *FlakyServer {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return startFlaky(t, "https", listener, func(f *FlakyServer, conn net.Conn) {
		_, _ = io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
		head := make([]byte, 9)
		for {
			if _, err := io.ReadFull(conn, head); err != nil {
				return
			}
			length, kind, flags, stream := binary.BigEndian.Uint32(head)>>8, head[3], head[4], head[5:]
			if _, err := io.CopyN(io.Discard, conn, int64(length)); err != nil {
				return
			}
			switch {
			case kind > 1 || flags&1 == 0: // not the end of a request
			case f.write() == 1:
				_, _ = conn.Write(append(append([]byte{0, 0, 4, 3, 0}, stream...), 0, 0, 0, 1)) // RST_STREAM
			default:
				_, _ = conn.Write(append(append([]byte{0, 0, 1, 1, 5}, stream...), 0x88)) // 200
			}
		}
	})
}
