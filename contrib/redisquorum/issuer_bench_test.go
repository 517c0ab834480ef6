package redisquorum_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/contrib/redisquorum"
	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/internal/test/testenv"
)

// The baseline is Redlock as it is usually written, without a token: SET NX PX at all
// nodes, and a script at all nodes that deletes the key if the value is the holder's. It
// takes two round trips; the Issuer takes three.
func BenchmarkAcquireRelease(b *testing.B) {
	iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}}
	for _, name := range []string{"a", "b", "c"} {
		iss.Nodes[name] = testenv.OwnRedis(b).Client()
	}
	if err := iss.Bootstrap(b.Context()); err != nil {
		b.Fatal(err)
	}
	benchratio.Report(b,
		func() error { return redlock(b.Context(), iss.Nodes) },
		func() error {
			grant, err := iss.Acquire(b.Context(), resource, "worker-1", 10*time.Second)
			if err != nil {
				return err
			}
			return iss.Release(b.Context(), grant.Token)
		})
}

// BenchmarkOurs is for counting allocations and for profiles.
func BenchmarkOurs(b *testing.B) {
	iss := &redisquorum.Issuer{Nodes: map[string]redis.UniversalClient{}}
	for _, name := range []string{"a", "b", "c"} {
		iss.Nodes[name] = testenv.OwnRedis(b).Client()
	}
	if err := iss.Bootstrap(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		grant, err := iss.Acquire(b.Context(), resource, "worker-1", 10*time.Second)
		if err == nil {
			err = iss.Release(b.Context(), grant.Token)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRedlock(b *testing.B) {
	nodes := map[string]redis.UniversalClient{}
	for _, name := range []string{"a", "b", "c"} {
		nodes[name] = testenv.OwnRedis(b).Client()
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := redlock(b.Context(), nodes); err != nil {
			b.Fatal(err)
		}
	}
}

var unlock = redis.NewScript(`
	if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
	return 0`)

func redlock(ctx context.Context, nodes map[string]redis.UniversalClient) error {
	for _, do := range []func(redis.UniversalClient) error{
		func(node redis.UniversalClient) error {
			return node.SetNX(ctx, "raw", "worker-1", 10*time.Second).Err()
		},
		func(node redis.UniversalClient) error {
			return unlock.Run(ctx, node, []string{"raw"}, "worker-1").Err()
		},
	} {
		var all sync.WaitGroup
		errs := make(chan error, len(nodes))
		for _, node := range nodes {
			all.Go(func() { errs <- do(node) })
		}
		all.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				return err
			}
		}
	}
	return nil
}
