package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/httptoken"
)

// The table of docs/serve.md: what one replica serves over each issuer. All of it, with the
// clients and the servers, is on this machine.
//
//	FENCEPOST_CAPACITY=10000 scripts/test all ./cmd/fencepost -run TestStressCapacity -v
func TestStressCapacity(t *testing.T) {
	size := testenv.Rounds(t, "FENCEPOST_CAPACITY", 200) // locks, and waiters
	clients := []int{1, 4, 16, 64, 256}
	for _, server := range []string{"memory", "redis", "postgres", "etcd"} {
		t.Run(server, func(t *testing.T) {
			p := startServe(t, served(t, server)...)
			transport := &http.Transport{MaxIdleConnsPerHost: size}
			t.Cleanup(transport.CloseIdleConnections)
			iss := &httptoken.Issuer{URL: p.url, Client: &http.Client{Transport: transport}}
			idle := p.memory()
			line := ""
			for _, n := range clients {
				line += fmt.Sprintf(" | %s", cycles(t, iss, n, time.Duration(min(size, 3_000))*time.Millisecond))
			}
			holds := make([]token.Token, size)
			inParallel(size, 32, func(i int) {
				grant, err := iss.Acquire(t.Context(), fmt.Sprint("held/", i), "holder", time.Hour)
				if err == nil {
					holds[i] = grant.Token
				}
			})
			require.NotContains(t, holds, token.Token{})
			held := p.memory()

			waiting, cancel := context.WithCancel(t.Context())
			defer cancel()
			var granted atomic.Int64
			var done sync.WaitGroup
			for i := range size {
				done.Go(func() {
					if _, err := iss.Wait(waiting, fmt.Sprint("held/", i), "waiter", time.Hour); err == nil {
						granted.Add(1)
					}
				})
			}
			pgtest.Await(t, func() bool { return p.inFlight() >= size })
			waits := p.memory()
			begun := time.Now()
			inParallel(size, 32, func(i int) {
				for errors.Is(iss.Release(t.Context(), holds[i]), token.ErrUnreachable) {
				}
			})
			done.Wait()
			require.EqualValues(t, size, granted.Load())
			t.Logf("| %s%s | %.0f | %.1f | %.1f | %.0f |", server, line, idle/1e6, (held-idle)/float64(size)/1e3, (waits-held)/float64(size)/1e3, float64(size)/time.Since(begun).Seconds())
		})
	}
}

// inParallel calls fn for 0 to n-1, in so many goroutines.
func inParallel(n, workers int, fn func(i int)) {
	var next atomic.Int64
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	done.Wait()
}

// cycles returns how many locks a second n clients acquire and release, and how long the
// slowest hundredth of them took at least.
func cycles(t *testing.T, iss token.Issuer, n int, d time.Duration) string {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	end := time.Now().Add(d)
	inParallel(n, n, func(i int) {
		for time.Now().Before(end) {
			begun := time.Now()
			grant, err := iss.Acquire(t.Context(), fmt.Sprint("cycle/", i), "holder", time.Minute)
			if err == nil {
				err = iss.Release(t.Context(), grant.Token)
			}
			mu.Lock()
			took = append(took, time.Since(begun))
			mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	slices.Sort(took)
	return fmt.Sprintf("%.0f, %d ms", float64(len(took))/d.Seconds(), took[len(took)*99/100].Milliseconds())
}

func (p *proxied) gauge(name string) float64 {
	p.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(ask(p, "GET", p.url+"/metrics", "").body)
	require.NotNil(p, found, name)
	n, err := strconv.ParseFloat(found[1], 64)
	require.NoError(p, err)
	return n
}

func (p *proxied) memory() float64 { p.Helper(); return p.gauge("process_resident_memory_bytes") }

func (p *proxied) inFlight() int {
	p.Helper()
	return int(p.gauge("fencepost_serve_requests_in_flight"))
}
