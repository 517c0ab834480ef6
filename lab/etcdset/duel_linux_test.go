package etcdset_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// With a pause that is forced between read and write, every naive way loses an addition
// each time, and Fencepost loses none.
//
// The way watched is not included: whether the end of its lease or its write comes first
// is left to chance.
func TestForcedPauses(t *testing.T) {
	t.Parallel()
	loses := count{Acknowledged: 2, Lost: 1}
	refuses := count{Acknowledged: 1, Refused: 1}
	evicts := count{Acknowledged: 1, Failed: 1}
	for name, d := range map[string]struct {
		one, other step // the steps at which they stop
		want       map[way]count
	}{
		"the successor adds while the first is stopped at its work": {atWork, "", map[way]count{
			lockOnly: loses, checkThenWrite: refuses,
		}},
		// hazard G1
		"the successor adds while the first is stopped at its write": {atWrite, "", map[way]count{
			lockOnly: loses, checkThenWrite: loses,
			fenceOnWrite: refuses, claimed: refuses, transaction: evicts,
		}},
		// hazard G3
		"the first writes while the successor is stopped at its write": {atWrite, atWrite, map[way]count{
			lockOnly: loses, checkThenWrite: loses, fenceOnWrite: loses,
			claimed: refuses, transaction: evicts,
		}},
	} {
		for way, want := range d.want {
			t.Run(string(way)+": "+name, func(t *testing.T) {
				t.Parallel()
				c := newConfig(t)
				c.Ways, c.TTL, c.Work, c.Idle = append(c.Ways[:0:0], way), hang, time.Millisecond, hang
				counts, err := c.play(t.Context(), func(pair *crew) error { return pair.duel(t, d.one, d.other) })
				require.NoError(t, err)
				want.Way, want.Begun = way, 2
				require.Equal(t, []count{want}, counts)
			})
		}
	}
}

// duel lets one process begin an addition and stop itself at a step. When its lease has
// expired, duel starts another process. If that one does not stop, it finishes before the
// first is continued; otherwise it is continued when the first has finished.
func (c *crew) duel(t *testing.T, one, other step) error {
	var first, second *member
	err := subprocess.Round{
		Pause: func(ctx context.Context) (err error) {
			// The idle timeout: an open transaction would block its successor for longer.
			first, err = c.add(ctx, one, time.Second)
			return err
		},
		Act: func(ctx context.Context) (err error) {
			endLeases(ctx, t, c.Prefix)
			second, err = c.add(ctx, other, c.Idle)
			return err
		},
		Resume: func(ctx context.Context) error { return first.resume(ctx) },
	}.Run(t.Context(), hang)
	if err == nil && other != "" {
		err = second.resume(t.Context())
	}
	return err
}

// add lets a new process do an addition, and returns when it has ended or stopped itself.
func (c *crew) add(ctx context.Context, stand step, idle time.Duration) (*member, error) {
	m, err := c.enter(ctx, func(s *setup) { s.Stand, s.Idle = stand, idle })
	switch {
	case err != nil:
		return nil, err
	case stand == "":
		return m, m.finish(ctx)
	}
	return m, m.Stands(ctx)
}

// endLeases ends all leases of an issuer as their TTL does. The counters stay.
func endLeases(ctx context.Context, t *testing.T, prefix string) {
	t.Helper()
	client, _ := testenv.Redis(t)
	keys, err := client.Keys(ctx, prefix+":*").Result()
	require.NoError(t, err)
	for _, key := range keys {
		if !strings.HasSuffix(key, ":counter") {
			require.NoError(t, client.Del(ctx, key).Err())
		}
	}
}
