package lockset_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/lockset"
	"github.com/fencepost/fencepost/token"
)

// Whether something was lost is decided by what was told and what is there.
func TestCounting(t *testing.T) {
	t.Parallel()
	told := func(t ...lockset.Told) []lockset.Told { return t }
	for name, c := range map[string]struct {
		told    []lockset.Told
		members []int64
		want    lockset.Count
	}{
		"everything is there":                {told(lockset.Acknowledged, lockset.Acknowledged), []int64{2, 1}, lockset.Count{Begun: 2, Acknowledged: 2}},
		"an acknowledged one is not there":   {told(lockset.Acknowledged, lockset.Acknowledged), []int64{2}, lockset.Count{Begun: 2, Acknowledged: 2, Lost: 1}},
		"nothing is there":                   {told(lockset.Acknowledged), nil, lockset.Count{Begun: 1, Acknowledged: 1, Lost: 1}},
		"a refused one is not there":         {told(lockset.Refused), nil, lockset.Count{Begun: 1, Refused: 1}},
		"a refused one is there":             {told(lockset.Refused), []int64{1}, lockset.Count{Begun: 1, Refused: 1, Ghosts: 1}},
		"a failed one is not there":          {told(lockset.Failed), nil, lockset.Count{Begun: 1, Failed: 1}},
		"a failed one is there":              {told(lockset.Failed), []int64{1}, lockset.Count{Begun: 1, Failed: 1, Ghosts: 1}},
		"an unknown one is not there":        {told(lockset.Unknown), nil, lockset.Count{Begun: 1, Unknown: 1}},
		"an unknown one is there":            {told(lockset.Unknown), []int64{1}, lockset.Count{Begun: 1, Unknown: 1}},
		"one that was never answered":        {told(lockset.Unanswered), []int64{1}, lockset.Count{Begun: 1, Unknown: 1}},
		"one is there that nobody added":     {told(lockset.Acknowledged), []int64{1, 7}, lockset.Count{Begun: 1, Acknowledged: 1, Ghosts: 1}},
		"one is there twice":                 {told(lockset.Acknowledged), []int64{1, 1}, lockset.Count{Begun: 1, Acknowledged: 1, Ghosts: 1}},
		"nothing was done, nothing is there": {nil, nil, lockset.Count{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.Way = lockset.LockOnly
			require.Equal(t, c.want, lockset.Counted(c.told, c.members...))
		})
	}
}

// Only what promises that nothing was written may count as not written.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	stale := &guard.StaleError{}
	for _, c := range []struct {
		err  error
		want lockset.Told
	}{
		{nil, lockset.Acknowledged},
		{stale, lockset.Refused},
		{fmt.Errorf("wrapped: %w", stale), lockset.Refused},
		{guard.ErrUnknown, lockset.Unknown},
		{errors.Join(guard.ErrUnknown, token.ErrLost), lockset.Unknown},
		{guard.ErrEvicted, lockset.Failed},
		{context.Canceled, lockset.Failed},
		{errors.New("no such table"), lockset.Failed},
	} {
		require.Equal(t, c.want, lockset.Outcome(c.err), "%v", c.err)
	}
}
