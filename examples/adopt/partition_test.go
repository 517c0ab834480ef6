package adopt_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard L1
func TestStressWhichHolderLearnsOfAPartitionInTime(t *testing.T) {
	rounds := testenv.Rounds(t, "FENCEPOST_PARTITIONS", 10)
	for name, lib := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var late []time.Duration
			for len(late) < rounds {
				late = append(late, partAll(t, lib, min(10, rounds-len(late)))...)
			}
			slices.Sort(late)
			least, most := late[0], late[len(late)-1]
			t.Logf("%s: detected the loss %v after another holder had the lock, at the median of %d rounds; from %v to %v",
				name, late[len(late)/2], len(late), least, most)
			if name == "fencepost" {
				require.Negative(t, most)
			} else {
				require.Positive(t, least, "go-redis waits and retries")
			}
		})
	}
}

// partAll starts that many holders, each behind a proxy of its own, and blocks the
// proxies. It returns for each holder how long after its successor's acquisition it
// detected the loss. A negative time means before it.
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
			p, err := netfault.Start(client.Options().Addr)
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

func part(ctx context.Context, p *netfault.Proxy, far, near taking, key string) (late time.Duration, err error) {
	held, err := far(ctx, key)
	if err != nil {
		return 0, err
	}
	told := make(chan time.Time, 1)
	go func() { held.told(ctx); told <- time.Now() }()
	time.Sleep(rand.N(partedTTL))
	p.Blackhole(netfault.Both)
	other, err := near(ctx, key)
	at := time.Now()
	if err != nil {
		return 0, err
	}
	late = (<-told).Sub(at)
	other.release(ctx)
	p.Heal(netfault.Both)
	held.release(ctx)
	return late, nil
}
