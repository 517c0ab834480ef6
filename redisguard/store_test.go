package redisguard_test

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/guardtest"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

func TestStoreOnRedis(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store { return newEnv(t).guard })
}

func TestStoreOnMiniredis(t *testing.T) {
	t.Parallel()
	guardtest.TestStore(t, func(t *testing.T) guard.Store {
		server := miniredis.RunT(t)
		return &redisguard.Guard{Client: connect(t, redis.Options{Addr: server.Addr()})}
	})
}

// Every write admits tokens like the store.
func TestWritesAdmitAsTheStoreDoes(t *testing.T) {
	t.Parallel()
	for _, door := range []string{"Set", "HSet", "Eval"} {
		t.Run(door, func(t *testing.T) {
			t.Parallel()
			guardtest.TestStore(t, func(t *testing.T) guard.Store {
				e := newEnv(t)
				return writing{e.guard, door, e.key}
			})
		})
	}
}

// writing is a store that admits by writing.
type writing struct {
	guard *redisguard.Guard
	door  string
	key   string
}

func (s writing) Admit(ctx context.Context, tok token.Token) error {
	ctx = token.NewContext(ctx, tok)
	switch s.door {
	case "Set":
		return s.guard.Set(ctx, tok.Resource, s.key, "x", 0)
	case "HSet":
		_, err := s.guard.HSet(ctx, tok.Resource, s.key+":hash", "field", "x")
		return err
	}
	_, err := s.guard.Eval(ctx, tok.Resource, "return redis.call('SET', KEYS[1], 'x')", []string{s.key})
	return err
}
