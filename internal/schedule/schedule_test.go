package schedule_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/schedule"
)

// ttl is one second, so that the cases read as milliseconds.
const (
	ms     = time.Millisecond
	ttl    = 1000 * ms
	margin = 100 * ms
)

// held is a lease that was granted at 0.
func held(stop time.Duration) schedule.Lease {
	s := schedule.Lease{Stop: stop}
	s.Extend(0, ttl, margin)
	return s
}

func TestExtend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, until, stop time.Duration
		next, end        time.Duration
	}{
		"a grant":                               {0, ttl, schedule.Never, ttl / 3, 900 * ms},
		"a renewal":                             {600 * ms, 1600 * ms, schedule.Never, 600*ms + ttl/3, 1500 * ms},
		"HoldAtMost ends before the lease":      {0, ttl, 400 * ms, ttl / 3, 400 * ms},
		"HoldAtMost ends before the renewal":    {0, ttl, 200 * ms, 200 * ms, 200 * ms},
		"a hand-off, for less than the margin":  {0, 90 * ms, schedule.Never, -10 * ms, -10 * ms},
		"a hand-off, for little more than that": {0, 120 * ms, schedule.Never, 20 * ms, 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := schedule.Lease{Stop: c.stop, Renewing: true, Failures: 3}
			s.Extend(c.now, c.until, margin)
			require.Equal(t, c.end, s.End())
			require.Equal(t, c.next, s.Next)
			require.False(t, s.Renewing)
			require.Zero(t, s.Failures)
		})
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	const early = ttl / 30 // for a ttl of one second
	for name, c := range map[string]struct {
		now  time.Duration
		ttl  time.Duration
		sent bool
		due  bool
	}{
		"long before":                  {0, ttl, false, false},
		"just before the window":       {ttl/3 - early - 1, ttl, false, false},
		"in the window of a batch":     {ttl/3 - early, ttl, false, true},
		"at its time":                  {ttl / 3, ttl, false, true},
		"late":                         {800 * ms, ttl, false, true},
		"while a renewal is under way": {ttl / 3, ttl, true, false},
		"after the end, with a renewal under way": {2 * ttl, ttl, true, false},
		"with a long ttl, before 100 ms":          {ttl/3 - 101*ms, time.Hour, false, false},
		"with a long ttl, 100 ms before":          {ttl/3 - 100*ms, time.Hour, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := held(schedule.Never)
			if c.sent {
				s.RenewalSent()
				require.Equal(t, s.End(), s.Next, "the next action is to end the lease in time")
			}
			require.Equal(t, c.due, s.Due(c.now, c.ttl))
		})
	}
}

func TestRenewalFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now, stop time.Duration
		next      time.Duration
	}{
		"with much time left":       {333 * ms, schedule.Never, 383 * ms}, // a twentieth of the ttl
		"with less":                 {800 * ms, schedule.Never, 825 * ms}, // a quarter of what is left
		"with almost none":          {898 * ms, schedule.Never, 899 * ms}, // a millisecond
		"with none":                 {900 * ms, schedule.Never, 900 * ms},
		"close to HoldAtMost's end": {333 * ms, 340 * ms, 340 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := held(c.stop)
			for failures := 1; failures <= 2; failures++ {
				s.RenewalSent()
				s.RenewalFailed(c.now, ttl)
				require.Equal(t, c.next, s.Next)
				require.Equal(t, failures, s.Failures)
				require.False(t, s.Renewing)
			}
			s.Extend(c.now, c.now+ttl, margin)
			require.Zero(t, s.Failures)
		})
	}
}

func TestRenewalTimeout(t *testing.T) {
	t.Parallel()
	s := held(schedule.Never)
	for now, want := range map[time.Duration]time.Duration{
		0:        ttl / 3,                   // at most a third of the ttl
		333 * ms: 283500 * time.Microsecond, // half of what is left
		800 * ms: 50 * ms,
		900 * ms: 0,
	} {
		require.Equal(t, want, s.RenewalTimeout(now, ttl), "%s", now)
	}
}

func TestTooLate(t *testing.T) {
	t.Parallel()
	for left, late := range map[time.Duration]bool{-ms: true, 0: true, margin: true, margin + 1: false, ttl: false} {
		require.Equal(t, late, schedule.TooLate(left, margin), "%s", left)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	const pause = 10 * ms
	for remaining, want := range map[time.Duration]time.Duration{
		time.Hour: pause, pause: pause, 4 * ms: 4 * ms, 0: ms, -time.Hour: ms, math.MaxInt64: pause,
	} {
		require.Equal(t, want, schedule.Pause(remaining, pause), "%s", remaining)
	}
}

func TestWhatARefusalMeans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark         int64 // the refused number is 10
		lost         bool  // the lease is known to be lost
		mayHave      bool
		answeredLost bool // by Recover
		recovered    bool
	}{
		"the mark is above, and Recover raises":                                  {mark: 11, mayHave: true, recovered: true},
		"the mark is above, and the issuer had been there":                       {mark: 11, mayHave: true, answeredLost: true},
		"the very number, of another holder":                                     {mark: 10, mayHave: true, recovered: true},
		"the very number, and the issuer had been there: a number granted twice": {mark: 10, mayHave: true, answeredLost: true, recovered: true},
		"the lease is lost, which explains it":                                   {mark: 11, lost: true, recovered: true},
		"the mark is below, so the refusal is about another":                     {mark: 9, recovered: true},
		"the guard does not report the mark":                                     {mark: 0, recovered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.mayHave, schedule.MayHaveForgotten(10, c.mark, c.lost))
			require.Equal(t, c.recovered, schedule.Recovered(10, c.mark, c.answeredLost))
		})
	}
}
