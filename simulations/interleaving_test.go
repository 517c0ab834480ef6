package simulations_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
)

func TestInterleavings(t *testing.T) {
	t.Parallel()
	names := simulations.Interleavings([]string{"acquire", "begin"}, 2)
	t.Run("each is named once", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, name := range names {
			require.False(t, seen[name], name)
			require.Regexp(t, `^[23]_holders/A(_and_B)?_sleeps?_at_[12]_(acquire|begin)/[BC]_writes_(before|meanwhile|after|never)/lock_(free|held)/A_(wakes|crashes)(_first|_last)?$`+
				`|^2_holders/A_loses_answer_[12]/B_writes_(after|before_A_hears)$`+
				`|^2_holders/A_loses_commit_1/B_writes_(after|before_A_hears)$`, name)
			seen[name] = true
		}
	})
	t.Run("the simplest come first", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "2_holders/A_sleeps_at_1_acquire/B_writes_before/lock_held/A_wakes", names[0])
		require.Contains(t, names[len(names)-1], "3_holders/A_and_B_sleep_at_2_begin/C_writes_never/lock_free")
	})
	t.Run("two holders, three times, two locks, two ends, and meanwhile; each answer, twice, and the COMMIT; three holders, in two orders besides", func(t *testing.T) {
		t.Parallel()
		require.Len(t, names, 2*(3*2*2-1+1)+2*2+2*1+2*(3*2*2*2-4))
	})
}

func TestBreakpoint(t *testing.T) {
	t.Parallel()
	t.Run("goroutines of one writer continue one by one", func(t *testing.T) {
		t.Parallel()
		breakpoint := simulations.NewBreakpoint()
		var through atomic.Int32
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				breakpoint.Pass("step")
				through.Add(1)
			})
		}
		for n := range int32(5) {
			require.Equal(t, "step", breakpoint.Next())
			require.LessOrEqual(t, through.Load(), n, "one more is stopped, and no other continued")
			breakpoint.Resume()
		}
		group.Wait()
	})
	t.Run("a disabled one stops no goroutine, and releases those that were stopped", func(t *testing.T) {
		t.Parallel()
		breakpoint := simulations.NewBreakpoint()
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() { breakpoint.Pass("step") })
		}
		breakpoint.Next()
		breakpoint.Disable()
		group.Wait()
		breakpoint.Pass("another")
		breakpoint.Disable()
	})
}

// A goroutine may be stopped just before the breakpoint is disabled. It has then already
// continued when the director resumes it.
func TestADisabledBreakpointDoesNotBlockTheDirector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) { // which reports a deadlock
		b := simulations.NewBreakpoint()
		b.Disable()
		b.Resume()
	})
}

func TestSameSeedSameRunInMemory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		first := shuffled(t, seed)
		require.Equal(t, first, shuffled(t, seed), "seed %d", seed)
	}
}

// shuffled returns the operations of all writers, in fake time: on a busy machine a lease
// could end meanwhile.
func shuffled(t *testing.T, seed uint64) (did []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		did, err = simulations.Shuffle(t.Context(), (&ledger{marks: new(guard.Memory)}).subject(), seed)
		require.NoError(t, err)
	})
	return did
}
