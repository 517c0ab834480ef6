package simulations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token/redistoken"
)

// stock is a program that counts in Redis: it reads with GET, computes, and writes the
// result.
type stock struct {
	client *redis.Client
	key    string
	fence  *redisguard.Guard
	issuer *redistoken.Issuer
	locks  *lock.Locker
}

func openStock(t *testing.T) *stock {
	t.Helper()
	client, prefix := testenv.Redis(t)
	s := &stock{client: client, key: prefix + ":{account/42}:stock", issuer: &redistoken.Issuer{Client: client, Prefix: prefix}}
	s.fence = &redisguard.Guard{Client: client, MarkKey: func(resource string) string { return prefix + ":mark:{" + resource + "}" }}
	s.locks = &lock.Locker{Issuer: s.issuer, Claim: s.fence.Admit}
	return s
}

func (s *stock) subject(unit func(context.Context) error) simulations.Subject {
	return simulations.Subject{Issuer: s.issuer, Resource: "account/42", Do: unit, Holds: true, Count: s.read}
}

func (s *stock) read(ctx context.Context) (int, error) {
	n, err := s.client.Get(ctx, s.key).Int()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}

func (s *stock) write(ctx context.Context, n int) error {
	return s.fence.Set(ctx, "account/42", s.key, n, 0)
}

// stale reads, and returns the write of what was computed.
func (s *stock) stale(ctx context.Context) (func(context.Context) error, error) {
	n, err := s.read(ctx)
	return func(ctx context.Context) error { return s.write(ctx, n+1) }, err
}

// work is one unit, under the token in ctx.
func (s *stock) work(ctx context.Context) error {
	n, err := s.read(ctx)
	if err != nil {
		return err
	}
	return s.write(ctx, n+1)
}

func (s *stock) hold(ctx context.Context, fn func(context.Context) error) error {
	return s.locks.Hold(ctx, "account/42", fn)
}

func (s *stock) holdUnclaimed(ctx context.Context, fn func(context.Context) error) error {
	return holdUnclaimed(ctx, s.issuer, fn)
}

func TestWrongProgramsOverRedisAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says string
		make func(s *stock) func(context.Context) error
	}{
		"the client instead of the guard": {"no guard at all", held(func(s *stock, ctx context.Context) error { // hazard G2
			n, err := s.read(ctx)
			if err != nil {
				return err
			}
			return s.client.Set(ctx, s.key, n+1, 0).Err()
		})},
		"retry after unknown":            {"retry after unknown", again[*stock](guard.ErrUnknown)},
		"an unknown taken for a success": {"unknown taken for an answer", ignoring[*stock](guard.ErrUnknown)},
		"a stale value written again":    {"a stale value written again", staleAgain[*stock]},
		"a refusal swallowed":            {"a refusal swallowed", ignoring[*stock](guard.ErrStale)},
		"a read without Claim":           {"read before Update without Claim", unclaimed((*stock).work)}, // hazard G3
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStock(t)
			began := time.Now()
			err := checkPlanned(t, untilFound(s.subject(c.make(s))))
			t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
			requireLikely(t, err, c.says)
		})
	}
}

func runRightOverRedis(t *testing.T, try scope) {
	for name, program := range map[string]func(s *stock) func(context.Context) error{
		"GET and Set, claimed": held((*stock).work),
		"a script, without Claim": unclaimed(func(s *stock, ctx context.Context) error {
			_, err := s.fence.Eval(ctx, "account/42", "return redis.call('INCR', KEYS[1])", []string{s.key})
			return err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStock(t)
			covered, err := simulations.Cover(t.Context(), try(s.subject(program(s))))
			require.NoError(t, err)
			require.Contains(t, covered, "answers to writes were lost")
			require.Contains(t, covered, "not covered: no paused holder was evicted from a transaction: no guard was called")
		})
	}
}
