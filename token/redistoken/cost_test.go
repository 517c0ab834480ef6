package redistoken_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestAHandOverCostsTwoCommandsAcrossProcessesAndOneWithin(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]int{"across processes": 4, "within one": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnRedis(t)
			want := map[int]int{4: 2, 1: 1}[processes]
			var all []*redistoken.Issuer
			for range processes {
				all = append(all, closing(t, &redistoken.Issuer{Client: server.Client()}))
			}
			const waiters, rounds = 4, 100
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			served := make(chan int, 1024)
			done := make(chan struct{}, waiters)
			for n := range waiters {
				go func() {
					defer func() { done <- struct{}{} }()
					for round := 0; ; round++ {
						grant, err := all[n%processes].Wait(ctx, resource, fmt.Sprintf("%d.%d", n, round), long)
						if err != nil {
							return
						}
						select {
						case served <- n:
						case <-ctx.Done():
						}
						time.Sleep(time.Millisecond) // until the others stand in line
						_ = all[n%processes].Release(t.Context(), grant.Token)
					}
				}()
			}
			for range 5 * waiters {
				<-served
			}
			before := scripts(t, server.Client())
			for range rounds {
				<-served
			}
			spent := scripts(t, server.Client()) - before
			stop()
			for range waiters {
				<-done
			}
			require.InDelta(t, want*rounds, spent, float64(want*rounds)/10, "scripts for %d acquisitions", rounds)
		})
	}
}

// scripts is how many the server has run.
func scripts(t *testing.T, client *redis.Client) (calls int) {
	t.Helper()
	for _, line := range splitLines(client.Info(t.Context(), "commandstats").Val()) {
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &calls); err == nil {
			return calls
		}
	}
	require.FailNow(t, "no statistics of evalsha")
	return 0
}
