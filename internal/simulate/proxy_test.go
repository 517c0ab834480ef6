package simulate_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxy stands before a PostgreSQL server and notes when a writer says
// something to it.
type proxy struct {
	address string
	server  string

	mu   sync.Mutex
	said map[string][]time.Time // by the writer's name
}

// startProxy returns a proxy and the URL of the server through it.
func startProxy(t *testing.T, server string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), server: u.Host, said: map[string][]time.Time{}}
	if u.Port() == "" {
		p.server = net.JoinHostPort(u.Hostname(), "5432")
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		conns.Wait()
	})
	u.Host = p.address
	query := u.Query()
	query.Set("sslmode", "disable") // or there is nothing to read
	u.RawQuery = query.Encode()
	return p, u.String()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		client.Close()
	}()
	name, buffer := "", make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		at := time.Now()
		if err != nil {
			return
		}
		for _, writer := range []string{"A", "B"} {
			if bytes.Contains(buffer[:n], []byte("fencepost simulate "+writer+"\x00")) {
				name = writer // the startup message
			}
		}
		p.note(name, at)
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) note(name string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[name] = append(p.said[name], at)
}

// between counts what the writer said from then to then.
func (p *proxy) between(writer string, from, to time.Time) (count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.said[writer] {
		if at.After(from) && at.Before(to) {
			count++
		}
	}
	return count
}
