package redistoken_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The baseline is the common lock: SET NX PX, and a script that deletes the key if the
// value is the holder's. It takes two round trips as well, and has no token.
func BenchmarkAcquireRelease(b *testing.B) {
	for _, workers := range []int{1, 16} {
		for name, ctx := range contexts(b) {
			b.Run(fmt.Sprintf("%d workers, a context that %s", workers, name), func(b *testing.B) {
				client, prefix := testenv.Redis(b)
				iss := &redistoken.Issuer{Client: client, Prefix: prefix}
				benchratio.Report(b,
					crowd(workers, func(n string) error { return raw(ctx, client, prefix+":raw/"+n) }),
					crowd(workers, func(n string) error {
						grant, err := iss.Acquire(ctx, n, "worker-1", 10*time.Second)
						if err != nil {
							return err
						}
						return iss.Release(ctx, grant.Token)
					}))
			})
		}
	}
}

func BenchmarkRefusedTry(b *testing.B) {
	for name, ctx := range contexts(b) {
		b.Run("a context that "+name, func(b *testing.B) {
			client, prefix := testenv.Redis(b)
			iss := &redistoken.Issuer{Client: client, Prefix: prefix}
			if _, err := iss.Acquire(ctx, "account/42", "holder", time.Hour); err != nil {
				b.Fatal(err)
			}
			benchratio.Report(b,
				func() error { return client.SetNX(ctx, lockKey(prefix, "account/42"), "worker-1", time.Second).Err() },
				func() error {
					if _, err := iss.Acquire(ctx, "account/42", "worker-1", time.Second); err == nil {
						return fmt.Errorf("the lock must be held")
					}
					return nil
				})
		})
	}
}

// BenchmarkHandOver reports the median time from the start of a release to the grant of a
// waiter in another process, in round trips: medians of PINGs in between.
func BenchmarkHandOver(b *testing.B) {
	client, prefix := testenv.Redis(b)
	var processes [2]*redistoken.Issuer
	for n := range processes {
		processes[n] = closing(b, &redistoken.Issuer{Client: client, Prefix: prefix})
	}
	ctx := b.Context()
	grant, err := processes[0].Acquire(ctx, resource, "first", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	var handovers, trips []time.Duration
	for n := 1; b.Loop(); n++ {
		served, got := make(chan time.Time, 1), make(chan result, 1)
		go func() {
			grant, err := processes[n%2].Wait(ctx, resource, strconv.Itoa(n), time.Hour)
			served <- time.Now()
			got <- result{grant, err}
		}()
		for client.ZCard(ctx, queueKey(prefix, resource)).Val() == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		start := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			b.Fatal(err)
		}
		released := time.Now()
		if err := processes[(n+1)%2].Release(ctx, grant.Token); err != nil {
			b.Fatal(err)
		}
		handovers, trips = append(handovers, (<-served).Sub(released)), append(trips, released.Sub(start))
		r := <-got
		if grant, err = r.Grant, r.err; err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(handovers)
	slices.Sort(trips)
	b.ReportMetric(float64(handovers[len(handovers)/2])/float64(trips[len(trips)/2]), "trips/op")
	b.ReportMetric(float64(handovers[len(handovers)/2].Nanoseconds()), "ns/op")
}

func contexts(b *testing.B) map[string]context.Context {
	return map[string]context.Context{"can end": b.Context(), "cannot": context.Background()}
}

func raw(ctx context.Context, client *redis.Client, key string) error {
	if err := client.SetNX(ctx, key, "worker-1", 10*time.Second).Err(); err != nil {
		return err
	}
	return unlock.Run(ctx, client, []string{key}, "worker-1").Err()
}

var unlock = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	return 0`)

// crowd calls call from n goroutines at once, each with its own name.
func crowd(workers int, call func(name string) error) func() error {
	if workers == 1 {
		return func() error { return call("account/42") }
	}
	errs := make([]error, workers)
	return func() error {
		var all sync.WaitGroup
		for n := range workers {
			all.Go(func() {
				for range 4 {
					if err := call(fmt.Sprint("account/", n)); err != nil {
						errs[n] = err
					}
				}
			})
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}
