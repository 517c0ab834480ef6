package main

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheEndWaitsForRequestsInFlight(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			p := startProxy(t, upstream.URL, append(postgresStore(t), "--resource", "account/{id}")...)
			p.ready()
			flying := async(t, "PUT", p.url+"/account/42", "late", field(t, "account/42", 33, "h")...)
			next(t, upstream.arrived)
			p.signal(s)
			require.EqualValues(t, 1, p.line("ending")["in_flight"])
			ready := ask(t, "GET", p.health+"/readyz", "")
			require.Equal(t, 503, ready.status)
			require.Equal(t, "ending\n", ready.body)
			require.Equal(t, 200, ask(t, "GET", p.health+"/livez", "").status)
			requireNoListener(t, p.address)
			upstream.open <- struct{}{}
			require.Equal(t, "applied late", next(t, flying).body)
			require.Zero(t, p.status())
			p.line("ended")
		})
	}
}

func requireNoListener(t *testing.T, address string) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, eventually, time.Millisecond)
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}")
	flying := async(t, "PUT", p.url+"/account/42", "late", field(t, "account/42", 33, "h")...)
	next(t, upstream.arrived)
	p.signal(syscall.SIGTERM)
	p.line("ending")
	p.signal(syscall.SIGTERM)
	require.Equal(t, -1, p.status(), "by the signal")
	require.Zero(t, next(t, flying).status)
}

func TestTheEndOfTheGrace(t *testing.T) {
	t.Parallel()
	upstream := newGated(t)
	p := startProxy(t, upstream.URL, "--dangerously-memory", "--resource", "account/{id}", "--grace", "50ms")
	flying := async(t, "PUT", p.url+"/account/42", "late", field(t, "account/42", 33, "h")...)
	next(t, upstream.arrived)
	p.signal(syscall.SIGTERM)
	require.Equal(t, 1, p.status())
	require.EqualValues(t, 1, p.line("ended before its requests did")["cut_off"])
	require.Zero(t, next(t, flying).status)
}

// Marks are durable before the upstream receives the request.
func TestMarksHoldWhenTheProxyIsKilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store  []string
		stale  int
		status int
	}{
		"in PostgreSQL":                   {postgresStore(t), 412, 200},
		"the naive twin, in this process": {[]string{"--dangerously-memory"}, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := newGated(t)
			args := append(c.store, "--resource", "account/{id}")
			killed := startProxy(t, upstream.URL, args...)
			var flying []<-chan reply
			for range 5 {
				flying = append(flying, async(t, "PUT", killed.url+"/account/42", "newer", field(t, "account/42", 34, "b")...))
				next(t, upstream.arrived)
			}
			killed.signal(syscall.SIGKILL)
			killed.status()
			for _, f := range flying {
				require.Zero(t, next(t, f).status)
			}
			p := startProxy(t, upstream.URL, args...)
			for range 20 {
				upstream.open <- struct{}{}
			}
			require.Equal(t, c.stale, ask(t, "PUT", p.url+"/account/42", "stale", field(t, "account/42", 33, "a")...).status)
			require.Equal(t, c.status, ask(t, "PUT", p.url+"/account/42", "newer", field(t, "account/42", 34, "b")...).status)
			require.Equal(t, 200, ask(t, "PUT", p.url+"/account/42", "newest", field(t, "account/42", 35, "c")...).status, "an ended process holds nothing")
		})
	}
}
