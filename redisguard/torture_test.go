package redisguard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
)

const (
	writers = 16
	turns   = 150 // of each writer
)

// Sixteen writers with new, old and impostors' tokens write to one list, some over a
// network that is cut repeatedly. The list is then compared with the errors that they
// got.
func TestStressGuard(t *testing.T) {
	t.Parallel()
	t.Run("guarded", func(t *testing.T) {
		t.Parallel()
		r := newRace(t)
		r.run(func(ctx context.Context, client *redis.Client, entry string) error {
			_, err := r.over(client).Eval(ctx, resource, ledger, []string{r.key}, entry)
			return err
		})
		require.Empty(t, r.violations(), "seed %d", r.seed)
		require.Positive(t, r.stale.Load(), "no write was refused")
		require.Positive(t, r.unknown.Load(), "nothing was cut off")
		t.Logf("%d of %d refused, %d unknown", r.stale.Load(), writers*turns, r.unknown.Load())
	})
	t.Run("the unguarded twin is seen to go wrong", func(t *testing.T) {
		t.Parallel()
		r := newRace(t)
		naive := redis.NewScript(ledger)
		r.run(func(ctx context.Context, client *redis.Client, entry string) error {
			return naive.Run(ctx, client, []string{r.key}, entry).Err()
		})
		found := strings.Join(r.violations(), "\n")
		for _, violation := range []string{" after ", " was of ", " is there twice"} {
			require.True(t, strings.Contains(found, violation), "nothing%s...", violation)
		}
	})
}

// race is one list that all writers write to, with the errors that they got.
type race struct {
	*env
	seed   uint64
	newest atomic.Int64

	mu             sync.Mutex
	told           map[string]error
	stale, unknown atomic.Int64
	through        atomic.Int64 // writes over the network that is cut
}

func newRace(t *testing.T) *race {
	return &race{env: newEnv(t), seed: rand.Uint64(), told: map[string]error{}}
}

func (r *race) run(write func(ctx context.Context, client *redis.Client, entry string) error) {
	r.newest.Store(100)
	far, p := r.far()
	over, stop := make(chan struct{}), sync.WaitGroup{}
	stop.Go(func() { r.disturb(p, over) })
	var done sync.WaitGroup
	for i := range writers {
		client := r.client
		if i%4 == 0 {
			client = far
		}
		done.Go(func() { r.writer(i, client, write) })
	}
	done.Wait()
	close(over)
	stop.Wait()
}

// disturb cuts connections, each time after data was held back on them and a few more
// writes have succeeded.
func (r *race) disturb(p *netfault.Proxy, over chan struct{}) {
	defer cut(p)
	for {
		before := r.through.Load()
		if !until(over, func() bool { return r.through.Load() >= before+8 }) {
			return
		}
		p.Blackhole(netfault.ToClient)
		if !until(over, func() bool { return p.Held(netfault.ToClient) > 0 }) {
			return
		}
		cut(p)
	}
}

func until(over chan struct{}, condition func() bool) bool {
	for !condition() {
		select {
		case <-over:
			return false
		default:
			runtime.Gosched()
		}
	}
	return true
}

func (r *race) writer(i int, client *redis.Client, write func(context.Context, *redis.Client, string) error) {
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
		err := write(with(r.Context(), number, holder), client, entry)
		if client != r.client {
			r.through.Add(1)
		}
		r.mu.Lock()
		r.told[entry] = err
		r.mu.Unlock()
		switch outcome := outcomes(err); {
		case err == nil:
		case len(outcome) == 1 && outcome[0] == guard.ErrStale:
			r.stale.Add(1)
		case len(outcome) == 1 && outcome[0] == guard.ErrUnknown:
			r.unknown.Add(1)
		}
	}
}

// violations checks the list: numbers never fall, a number has one holder, an
// acknowledged write is there once, a refused or failed one is absent, and an unknown one
// is there at most once.
func (r *race) violations() (found []string) {
	times, holders, top := map[string]int{}, map[int64]string{}, int64(0)
	for _, entry := range r.list() {
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
