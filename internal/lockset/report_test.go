package lockset_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockset"
)

func TestVerdict(t *testing.T) {
	t.Parallel()
	lucky := lockset.Count{Way: lockset.LockOnly, Begun: 9, Acknowledged: 9}
	bad := lockset.Count{Way: lockset.LockOnly, Begun: 9, Acknowledged: 9, Lost: 2}
	good := lockset.Count{Way: lockset.Claimed, Begun: 9, Acknowledged: 8, Refused: 1}
	for name, c := range map[string]struct {
		counts             []lockset.Count
		verdict, toothless string
	}{
		"the fence holds":                 {[]lockset.Count{bad, good}, "", ""},
		"the lock alone lost nothing":     {[]lockset.Count{lucky, good}, "", "lockset: toothless: the lock alone lost nothing"},
		"the fence lost one":              {[]lockset.Count{bad, {Way: lockset.Claimed, Acknowledged: 8, Lost: 1}}, "lockset: claimed: 1 of 8 acknowledged additions were lost", ""},
		"the other fence lost one":        {[]lockset.Count{bad, {Way: lockset.Transaction, Acknowledged: 8, Lost: 1}}, "lockset: transaction: 1 of 8 acknowledged additions were lost", ""},
		"the set has what was refused":    {[]lockset.Count{bad, {Way: lockset.Claimed, Acknowledged: 8, Ghosts: 1}}, "lockset: claimed: the set has 1 members that it must not have", ""},
		"one of the ways was not at work": {[]lockset.Count{bad, {Way: lockset.Claimed}}, "lockset: claimed: nothing was acknowledged: it hangs", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := lockset.Report{Counts: c.counts, Trouble: "it hangs"}
			requireText(t, c.verdict, report.Verdict())
			requireText(t, c.toothless, report.Toothless())
		})
	}
}

func requireText(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
		return
	}
	require.EqualError(t, err, want)
}

func TestReportsAddUp(t *testing.T) {
	t.Parallel()
	run := func() *lockset.Report {
		return &lockset.Report{
			Runs: 1, Length: time.Minute, Pauses: 3, Paused: 7 * time.Second, Longer: 2, Servers: "Redis 7", Troubles: 1,
			Counts: []lockset.Count{
				{Way: lockset.LockOnly, Begun: 15, Acknowledged: 10, Lost: 3, Refused: 1, Failed: 2, Unknown: 2, Ghosts: 1},
				{Way: lockset.Claimed, Begun: 5, Acknowledged: 5},
			},
		}
	}
	var total lockset.Report
	total.Add(run())
	total.Add(run())
	require.Equal(t, lockset.Count{
		Way: lockset.LockOnly, Begun: 30, Acknowledged: 20, Lost: 6, Refused: 2, Failed: 4, Unknown: 4, Ghosts: 2,
	}, total.Of(lockset.LockOnly))
	require.Equal(t, 2, total.Troubles)
	require.Equal(t, `Redis 7; runs: 2, 2m0s in all; pauses: 6, 14s in all, 4 of them longer than the ttl

| | acknowledged | lost | of these | refused | failed | unknown |
|---|--:|--:|--:|--:|--:|--:|
| lock only | 20 | 6 | 30.0 % | 2 | 4 | 4 |
| **Fencepost**: claim, read, guarded write | 10 | 0 | 0.0 % | 0 | 0 | 0 |
`, total.String())
}
