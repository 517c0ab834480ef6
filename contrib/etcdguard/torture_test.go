package etcdguard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fencepost/fencepost/contrib/etcdguard"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
)

const (
	writers = 8
	turns   = 500 // of each writer
)

// Eight writers with new, old and impostors' tokens write to one key, two of them over a
// network that is cut again and again. The history of the key, by etcd's own revisions, is
// then compared with the errors that they got.
func TestTorture(t *testing.T) {
	t.Parallel()
	t.Run("guarded", func(t *testing.T) {
		t.Parallel()
		r := newRace(t)
		r.run(func(ctx context.Context, g *etcdguard.Guard, entry string) error { return r.put(ctx, g, entry) })
		require.Empty(t, r.violations(), "seed %d", r.seed)
		require.Positive(t, r.stale.Load(), "no write was refused")
		require.Positive(t, r.unknown.Load(), "nothing was cut off")
		t.Logf("%d of %d refused, %d unknown", r.stale.Load(), writers*turns, r.unknown.Load())
	})
	t.Run("the unguarded twin is seen to go wrong", func(t *testing.T) {
		t.Parallel()
		r := newRace(t)
		r.run(func(ctx context.Context, g *etcdguard.Guard, entry string) error {
			_, err := g.Client.Put(ctx, r.key, entry)
			return err
		})
		found := strings.Join(r.violations(), "\n")
		for _, violation := range []string{" after ", " was of "} {
			require.True(t, strings.Contains(found, violation), "nothing%s...", violation)
		}
	})
}

// race is one key that all writers write to, with the errors that they got.
type race struct {
	*env
	seed           uint64
	newest         atomic.Int64
	stale, unknown atomic.Int64
	through        atomic.Int64 // writes over the network that is cut

	mu   sync.Mutex
	told map[string]error
}

func newRace(t *testing.T) *race {
	return &race{env: newEnv(t), seed: rand.Uint64(), told: map[string]error{}}
}

func (r *race) run(write func(ctx context.Context, g *etcdguard.Guard, entry string) error) {
	r.newest.Store(95) // the numbers soon get another digit
	far, p := r.far()
	ctx, over := context.WithCancel(r.Context())
	var stop, done sync.WaitGroup
	stop.Go(func() { r.disturb(ctx, p) })
	for i := range writers {
		g := r.guard
		if i%4 == 0 {
			g = far
		}
		done.Go(func() { r.writer(i, g, write) })
	}
	done.Wait()
	over()
	stop.Wait()
}

// disturb cuts the connections, each time after it has held back replies and a few more
// writes have returned.
func (r *race) disturb(ctx context.Context, p *netfault.Proxy) {
	defer p.Heal(netfault.Both)
	until := func(condition func() bool) {
		for ctx.Err() == nil && !condition() {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
	}
	for ctx.Err() == nil {
		before := r.through.Load()
		until(func() bool { return r.through.Load() >= before+8 })
		p.Blackhole(netfault.ToClient)
		until(func() bool { return p.Held(netfault.ToClient) > 0 })
		p.Reset()
		p.Heal(netfault.Both)
	}
}

func (r *race) writer(i int, g *etcdguard.Guard, write func(context.Context, *etcdguard.Guard, string) error) {
	dice := rand.New(rand.NewPCG(r.seed, uint64(i)))
	for turn := range turns {
		number, holder := r.newest.Load(), "h"
		switch dice.IntN(10) {
		case 0, 1:
			number = r.newest.Add(1)
		case 2, 3:
			number -= 1 + dice.Int64N(3)
		case 4:
			holder = "impostor"
		}
		entry := fmt.Sprintf("%d %s %d.%d", number, holder, i, turn)
		err := write(with(r.Context(), number, holder), g, entry)
		if g != r.guard {
			r.through.Add(1)
		}
		r.mu.Lock()
		r.told[entry] = err
		r.mu.Unlock()
		switch outcome := outcomes(err); {
		case len(outcome) == 1 && outcome[0] == guard.ErrStale:
			r.stale.Add(1)
		case len(outcome) == 1 && outcome[0] == guard.ErrUnknown:
			r.unknown.Add(1)
		}
	}
}

// history returns the values of the key in the order of their revisions.
func (r *race) history() (entries []string) {
	r.Helper()
	_, versions := r.get(r.key)
	ctx, cancel := context.WithTimeout(r.Context(), ceiling)
	defer cancel()
	for resp := range r.client.Watch(ctx, r.key, clientv3.WithRev(1)) {
		require.NoError(r, resp.Err())
		for _, event := range resp.Events {
			entries = append(entries, string(event.Kv.Value))
		}
		if int64(len(entries)) == versions {
			break
		}
	}
	require.EqualValues(r, versions, len(entries))
	return entries
}

// violations checks the history: numbers never fall, a number has one holder, an
// acknowledged write is there once, a refused or failed one is absent, and an unknown one
// is there at most once.
func (r *race) violations() (found []string) {
	times, holders, top := map[string]int{}, map[int64]string{}, int64(0)
	for _, entry := range r.history() {
		times[entry]++
		digits, rest, _ := strings.Cut(entry, " ")
		holder, _, _ := strings.Cut(rest, " ")
		number, err := strconv.ParseInt(digits, 10, 64)
		require.NoError(r, err)
		if number < top {
			found = append(found, fmt.Sprintf("%q after %d", entry, top))
		}
		if other, known := holders[number]; known && other != holder {
			found = append(found, fmt.Sprintf("%q, and %d was of %q", entry, number, other))
		}
		top, holders[number] = max(top, number), holder
	}
	for entry, err := range r.told {
		n, isUnknown := times[entry], len(outcomes(err)) == 1 && outcomes(err)[0] == guard.ErrUnknown
		switch {
		case n > 1:
			found = append(found, fmt.Sprintf("%q is there twice", entry))
		case err == nil && n == 0:
			found = append(found, fmt.Sprintf("%q was acknowledged, and is not there", entry))
		case err != nil && !isUnknown && n > 0:
			found = append(found, fmt.Sprintf("%q is there, and its writer got %v", entry, err))
		}
	}
	return found
}
