package adopt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/simulations/proxy"
)

// hazard L1
func TestWhoHearsOfAPartitionInTime(t *testing.T) {
	rounds := 10
	if text := os.Getenv("FENCEPOST_PARTITIONS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	for name, lib := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var late []time.Duration
			for len(late) < rounds {
				late = append(late, partAll(t, lib, min(10, rounds-len(late)))...)
			}
			slices.Sort(late)
			least, most := late[0], late[len(late)-1]
			t.Logf("%s: told %v after somebody else had the lock, at the median of %d rounds; from %v to %v",
				name, late[len(late)/2], len(late), least, most)
			if name == "fencepost" {
				require.Negative(t, most)
			} else {
				require.Positive(t, least, "go-redis awaits an answer for three seconds")
			}
		})
	}
}

// partAll has so many holders at once, each behind a proxy of its own that lets
// nothing pass any more, and answers how long after its successor had the lock
// each was told. Below zero it was told before.
func partAll(t *testing.T, lib library, n int) (late []time.Duration) {
	t.Helper()
	t.Run("rounds", func(t *testing.T) {
		client, prefix := testenv.Redis(t)
		near := lib(t, client.Options().Addr)
		type answer struct {
			late time.Duration
			err  error
		}
		answers := make(chan answer)
		for i := range n {
			p, err := proxy.Start(client.Options().Addr)
			require.NoError(t, err)
			t.Cleanup(p.Close)
			far := lib(t, p.Addr())
			go func() {
				late, err := part(t.Context(), p, far, near, fmt.Sprintf("%s:%d", prefix, i))
				answers <- answer{late, err}
			}()
		}
		for range n {
			a := <-answers
			require.NoError(t, a.err)
			late = append(late, a.late.Round(time.Millisecond))
		}
	})
	return late
}

func part(ctx context.Context, p *proxy.Proxy, far, near taking, key string) (late time.Duration, err error) {
	held, err := far(ctx, key)
	if err != nil {
		return 0, err
	}
	told := make(chan time.Time, 1)
	go func() { held.told(ctx); told <- time.Now() }()
	time.Sleep(rand.N(partedTTL))
	p.Blackhole(proxy.Both)
	other, err := near(ctx, key)
	at := time.Now()
	if err != nil {
		return 0, err
	}
	late = (<-told).Sub(at)
	other.release(ctx)
	p.Heal(proxy.Both)
	held.release(ctx)
	return late, nil
}
