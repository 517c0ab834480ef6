//go:build unix

package lockset_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/lockset"
)

var errEnough = errors.New("enough")

// A run that could not be carried out is an error, never a figure.
func TestRunsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*lockset.Config)
		want   string
	}{
		"nothing is paused":           {func(c *lockset.Config) { c.Every = 0 }, "a required field"},
		"no process at all":           {func(c *lockset.Config) { c.Processes = 0 }, "a required field"},
		"a process that says no word": {func(c *lockset.Config) { c.Argv = []string{"false"} }, "is gone: exit status 1"},
		"a URL that is none":          {func(c *lockset.Config) { c.Redis = "redis://u:sekret@h:port" }, "is gone: exit status 1: lockset: redis: not a URL"},
		"a server that is not there":  {func(c *lockset.Config) { c.Redis = "redis://127.0.0.1:1" }, "lockset: redis at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := config(t)
			c.change(&o)
			report, err := lockset.Run(t.Context(), o)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "sekret")
			require.Nil(t, report)
		})
	}
}

func TestACancelledRunIsNone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(500*time.Millisecond, func() { cancel(errEnough) })
	report, err := lockset.Run(ctx, config(t))
	require.Error(t, err)
	require.Nil(t, report)
}

// The only way that looks at its lease leaves with it, before it writes.
func TestWhoWatchesItsLeaseLeavesWithIt(t *testing.T) {
	t.Parallel()
	o := config(t)
	o.Ways, o.TTL, o.Work = []lockset.Way{lockset.Watched}, 200*time.Millisecond, 1000*time.Hour
	count, err := lockset.Leave(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, lockset.Count{Way: lockset.Watched, Begun: 1, Failed: 1}, count)
}

// Nor does the end of the run count for the end of a lease.
func TestWhatIsBegunIsEnded(t *testing.T) {
	t.Parallel()
	for _, way := range lockset.Ways() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			o := config(t)
			o.Ways, o.Work = []lockset.Way{way}, time.Second
			count, err := lockset.Quit(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, lockset.Count{Way: way, Begun: 1, Acknowledged: 1}, count)
		})
	}
}
