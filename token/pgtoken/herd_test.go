package pgtoken_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

const (
	programs = 4
	crowd    = 4 // waiters of each
	rounds   = 30
)

// counted is an Issuer with a pool of its own that counts its packets.
func counted(t *testing.T, schema string, sent *atomic.Int64) *pgtoken.Issuer {
	t.Helper()
	pool := connect(t, func(config *pgxpool.Config) {
		config.MaxConns = crowd
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // which prepares nothing
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return countingConn{conn, sent}, err
		}
	})
	return closed(t, &pgtoken.Issuer{DB: pool, Schema: schema})
}

// race has everybody acquire and release until all have had their turns, and
// returns how many each had.
func race(t *testing.T, issuers []*pgtoken.Issuer, acquire func(iss *pgtoken.Issuer, holder string) (token.Grant, error), released func()) []float64 {
	t.Helper()
	var group sync.WaitGroup
	var left atomic.Int64
	left.Store(programs * crowd * rounds)
	turns := make([]float64, programs*crowd)
	for w := range turns {
		iss := issuers[w%programs]
		group.Go(func() {
			for n := 0; left.Add(-1) >= 0 && !t.Failed(); n++ {
				grant, err := acquire(iss, fmt.Sprintf("%d/%d", w, n))
				if err == nil {
					err = iss.Release(t.Context(), grant.Token)
				}
				if err != nil {
					t.Error(err)
					return
				}
				released()
				turns[w]++
			}
		})
	}
	group.Wait()
	return turns
}

// jain is 1 where all had equally many, and 1/n where one had them all.
func jain(turns []float64) float64 {
	var sum, squares float64
	for _, n := range turns {
		sum += n
		squares += n * n
	}
	return sum * sum / (float64(len(turns)) * squares)
}

// hazard L7
func TestOneReleaseWakesOneWaiter(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	var sent atomic.Int64
	var issuers []*pgtoken.Issuer
	for range programs {
		issuers = append(issuers, counted(t, schema, &sent))
	}
	t.Run("two packets a turn, and turn by turn", func(t *testing.T) {
		first := acquire(t, issuers[0], "first")
		done := make(chan []float64, 1)
		sent.Store(0)
		go func() {
			done <- race(t, issuers, func(iss *pgtoken.Issuer, holder string) (token.Grant, error) {
				return iss.Wait(t.Context(), resource, holder, long)
			}, func() {})
		}()
		awaitLine(t, pool, schema, programs*crowd, notified)
		require.NoError(t, issuers[0].Release(t.Context(), first))
		turns := <-done
		// Each process connects and listens once; until then its waiters ask thrice.
		const arriving = programs*crowd*8 + programs*12
		require.LessOrEqual(t, sent.Load(), int64(2*programs*crowd*rounds+arriving))
		require.GreaterOrEqual(t, jain(turns), 0.99)
		awaitLine(t, pool, schema, 0, "true")
	})
	t.Run("waking all of them, as the naive release does, has each of them ask", func(t *testing.T) {
		var herd sync.Mutex
		woken := sync.NewCond(&herd)
		generation := 0
		sent.Store(0)
		race(t, issuers, func(iss *pgtoken.Issuer, holder string) (token.Grant, error) {
			for {
				herd.Lock()
				seen := generation
				herd.Unlock()
				grant, err := iss.Acquire(t.Context(), resource, holder, long)
				if !errors.Is(err, token.ErrHeld) {
					return grant, err
				}
				herd.Lock()
				for generation == seen {
					woken.Wait()
				}
				herd.Unlock()
			}
		}, func() {
			herd.Lock()
			generation++
			herd.Unlock()
			woken.Broadcast()
		})
		require.Greater(t, sent.Load(), int64(3*programs*crowd*rounds))
	})
}
