package simulations_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func TestInFakeTimeNoRuleIsBrokenWhateverTheSeed(t *testing.T) {
	t.Parallel()
	playSeeds(t, 500, inMemory)
}

func TestInFakeTimeRedisToo(t *testing.T) {
	t.Parallel()
	playSeeds(t, 40, onRedis)
}

// manySeeds is how many seeds are played with each issuer, unless FENCEPOST_SEEDS sets it.
// A seed on Redis takes as long as fifteen in memory.
const manySeeds = 5_000

func TestStressSeeds(t *testing.T) {
	n := testenv.Rounds(t, "FENCEPOST_SEEDS", manySeeds)
	t.Run("memory", func(t *testing.T) { playSeeds(t, n, inMemory) })
	t.Run("Redis", func(t *testing.T) { playSeeds(t, max(n/50, 40), onRedis) })
}

// playSeeds plays each seed guarded, which must break no rule, and as its unguarded twin,
// which must often break one.
func playSeeds(t *testing.T, seeds int, s func(*testing.T) *site) {
	t.Helper()
	var next, broken, units, honest, recoveries atomic.Int64
	began := time.Now()
	t.Run("seeds", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(core), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= int64(seeds); seed = next.Add(1) {
					c := crowd{seed: uint64(seed), site: s}
					w := c.play(t)
					if err := w.judge(); err != nil {
						t.Fatalf("seed %d: %v\n%s", seed, err, w.transcript())
					}
					require.Zero(t, w.lost(), "seed %d", seed)
					units.Add(int64(len(w.units)))
					recoveries.Add(w.recoveries.Load())
					if !w.has(dishonest) {
						honest.Add(1)
					}
					c.twin = true
					if c.play(t).judge() != nil {
						broken.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d seeds in %s: %d units, %d recoveries; every rule was judged under %d, and the unguarded twin broke some under %d",
		seeds, time.Since(began).Round(time.Millisecond), units.Load(), recoveries.Load(), honest.Load(), broken.Load())
	require.Greater(t, broken.Load(), int64(seeds)/4, "vacuous")
	require.Greater(t, honest.Load(), int64(seeds)/4)
	require.Positive(t, recoveries.Load())
}

// On Redis it is so if the waiters poll: those in its queue pause for random times.
func TestInFakeTimeTheSameSeedIsTheSameRun(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]func(*testing.T) *site{"memory": inMemory, "Redis": onRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const seeds = 50
			different := map[string]bool{}
			for seed := range uint64(seeds) {
				c := crowd{seed: seed, site: s, polls: name == "Redis"}
				first := c.play(t).transcript()
				require.Equal(t, first, c.play(t).transcript(), "seed %d", seed)
				different[first] = true
			}
			require.Len(t, different, seeds, "the seed decides nothing")
		})
	}
}

// hasty expires locks earlier than it has promised.
type hasty struct{ *memtoken.Issuer }

func (h hasty) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	return h.Issuer.Acquire(ctx, resource, holder, ttl/2)
}

// careless releases the resource for any caller. hazard R7
type careless struct {
	*memtoken.Issuer
	last *atomic.Pointer[token.Token]
}

func (c careless) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := c.Issuer.Acquire(ctx, resource, holder, ttl)
	if err == nil {
		c.last.Store(&grant.Token)
	}
	return grant, err
}

func (c careless) Release(ctx context.Context, tok token.Token) error {
	if last := c.last.Load(); last != nil {
		tok = *last
	}
	return c.Issuer.Release(ctx, tok)
}

// backwards issues decreasing numbers.
type backwards struct {
	*memtoken.Issuer
	next *atomic.Int64
}

func (b backwards) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	grant, err := b.Issuer.Acquire(ctx, resource, holder, ttl)
	grant.Token.Number += b.next.Add(-1_000_000)
	return grant, err
}

// TestStressSourceMutants makes more mistakes, in the source.
func TestInFakeTimeBrokenPartsAreCaught(t *testing.T) {
	t.Parallel()
	for rule, broken := range map[string]func(*world){
		"mutual-exclusion": func(w *world) { w.current.Issuer = hasty{new(memtoken.Issuer)} },
		"owner":            func(w *world) { w.current.Issuer = careless{new(memtoken.Issuer), new(atomic.Pointer[token.Token])} },
		"numbers":          func(w *world) { w.current.Issuer = backwards{new(memtoken.Issuer), new(atomic.Int64)} },
		"order":            func(w *world) { w.marks.floorless = true },
		"once":             func(w *world) { w.repeats = true },
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(200) {
				err := crowd{seed: seed, site: inMemory, broken: broken}.play(t).judge()
				if err != nil {
					require.ErrorContains(t, err, rule+": ")
					return
				}
			}
			require.Fail(t, "not caught")
		})
	}
}
