package fairness_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hazard L7
func TestWaitersHaveTheirTurnsInTurn(t *testing.T) {
	for name := range issuers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, size := newOrder(t, name), sizeOf(t)
			o.TTL, o.Work = 2*time.Second, work
			// Processes are not the same: a lock that serves them in turn serves
			// the waiters of a small one more often.
			n := size.waiters / 16
			s := compete(t, o, []int{n, 3 * n, 4 * n, 8 * n}, size.lasts)
			all := s.waiters(func(string) bool { return true })
			t.Logf("%s: %s", name, s.about(all))
			require.Len(t, all, size.waiters)
			require.Zero(t, s.overlaps(), "two holders at a time")
			require.Zero(t, s.falls())
			require.GreaterOrEqual(t, s.jain(all), 0.99)
			require.LessOrEqual(t, s.passedOver(all), 2*size.waiters)
			if size.full {
				require.LessOrEqual(t, s.longest(all), 2*s.fair())
			}
		})
	}
}

// hazard L7
func TestAKilledProcessLosesItsOwnTurnsOnly(t *testing.T) {
	for name := range issuers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, size := newOrder(t, name), sizeOf(t)
			o.TTL, o.Work = 500*time.Millisecond, work
			f := &field{T: t, order: o}
			for range 4 {
				f.enter(size.waiters / 4)
			}
			for end := time.Now().Add(size.lasts); time.Now().Before(end); {
				time.Sleep(time.Second/2 + rand.N(time.Second))
				f.replace(2, size.waiters/4) // the two before stay
			}
			s := f.stop()
			survivors := s.waiters(func(p string) bool { return p == "process 0" || p == "process 1" })
			t.Logf("%s, %d processes killed: %s", name, f.started-4, s.about(survivors))
			require.Len(t, survivors, size.waiters/2)
			require.Zero(t, s.overlaps(), "two holders at a time")
			require.Zero(t, s.falls())
			require.GreaterOrEqual(t, s.jain(survivors), 0.99)
			require.LessOrEqual(t, s.passedOver(survivors), 2*size.waiters)
		})
	}
}

// hazard L7
func TestWithoutALineSomebodyIsPassedOver(t *testing.T) {
	t.Parallel()
	o := newOrder(t, "redistoken")
	o.TTL, o.Work, o.Polls = 2*time.Second, 2*time.Millisecond, true
	s := compete(t, o, []int{1, 3, 4, 8}, 5*time.Second)
	all := s.waiters(func(string) bool { return true })
	t.Logf("polling: %s", s.about(all))
	require.Less(t, s.jain(all), 0.99, "who asks again and again must be served by chance")
	require.Greater(t, s.passedOver(all), 2*len(all))
	require.Zero(t, s.overlaps(), "it is a lock all the same")
}
