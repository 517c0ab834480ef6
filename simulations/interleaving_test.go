package simulations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations"
)

func TestInterleavings(t *testing.T) {
	t.Parallel()
	names := simulations.Interleavings([]string{"acquire", "begin"})
	t.Run("each is named once", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, name := range names {
			require.False(t, seen[name], name)
			require.Regexp(t, `^[23]_holders/A(_and_B)?_sleeps?_at_[12]_(acquire|begin)/[BC]_writes_(before|after|never)/lock_(free|held)/A_(wakes|crashes)(_first|_last)?$`, name)
			seen[name] = true
		}
	})
	t.Run("the simplest come first", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "2_holders/A_sleeps_at_1_acquire/B_writes_before/lock_held/A_wakes", names[0])
		require.Contains(t, names[len(names)-1], "3_holders/A_and_B_sleep_at_2_begin/C_writes_never/lock_free")
	})
	t.Run("two holders, three times, two locks, two ends; three, in two orders besides", func(t *testing.T) {
		t.Parallel()
		require.Len(t, names, 2*(3*2*2-1)+2*(3*2*2*2-4))
	})
}
