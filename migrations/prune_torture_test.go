package migrations_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	torturers = 16
	hot       = 24 // resources
	tortured  = 10_000
	mutilated = 2_000
)

// torture has sixteen writers write to resources whose marks are pruned all the
// while, some of them just raised, and holds what they are told, and the ledger,
// against the order of the tokens.
type torture struct {
	fence
	*testing.T
	seed   uint64
	clock  atomic.Int64 // the last number that was issued
	newest [hot]atomic.Int64
	cutoff atomic.Int64 // no floor was ever above it
	writes atomic.Int64

	mu         sync.Mutex
	counts     map[string]int
	violations []string
}

func newTorture(t *testing.T) *torture {
	f := newFence(t)
	require.NoError(t, f.exec(t.Context(), f, "CREATE TABLE fence.ledger (n bigserial PRIMARY KEY, id int NOT NULL, number bigint NOT NULL)"))
	tt := &torture{fence: f, T: t, seed: rand.Uint64(), counts: map[string]int{}}
	if given, err := strconv.ParseUint(os.Getenv("FENCEPOST_TEST_SEED"), 10, 64); err == nil {
		tt.seed = given
	}
	return tt
}

// run makes n writes, or stops at a violation.
func (tt *torture) run(n int64) {
	var writers, pruner sync.WaitGroup
	for w := range torturers {
		writers.Go(func() {
			for rng := tt.rng(w); tt.writes.Add(1) <= n && tt.clean(); {
				tt.write(rng)
			}
		})
	}
	finished := make(chan struct{})
	pruner.Go(func() {
		for rng := tt.rng(torturers); ; {
			select {
			case <-finished:
				return
			default:
				tt.prune(rng)
			}
		}
	})
	writers.Wait()
	close(finished)
	pruner.Wait()
	tt.check()
}

func (tt *torture) rng(stream int) *rand.Rand { return rand.New(rand.NewPCG(tt.seed, uint64(stream))) }

// hazard G21
func TestTortureOfPrune(t *testing.T) {
	t.Parallel()
	tt := newTorture(t)
	tt.run(tortured)
	t.Logf("seed %d: %v", tt.seed, tt.counts)
	require.Empty(t, tt.violations, "FENCEPOST_TEST_SEED=%d", tt.seed)
	for _, kind := range []string{"admitted", "refused by the mark", "refused by the floor", "rolled back", "pruned"} {
		require.Greater(t, tt.counts[kind], 100, kind)
	}
	require.Positive(t, tt.counts["ZF004"])
	for id := range hot {
		require.NoError(t, tt.admit(t.Context(), tt, resource(id), tt.clock.Load()+10, "last"), "above every cutoff")
	}
}

// The torture is worth what it catches.
func TestTortureOfPruneCatchesItsMutant(t *testing.T) {
	t.Parallel()
	tt := newTorture(t)
	withoutFloor.put(t, tt.fence)
	tt.run(mutilated)
	t.Logf("seed %d: %v", tt.seed, tt.counts)
	require.NotEmpty(t, tt.violations, "the torture does not catch it: FENCEPOST_TEST_SEED=%d", tt.seed)
	t.Log(tt.violations[0])
}

func resource(id int) string { return fmt.Sprintf("hot/%d", id) }
