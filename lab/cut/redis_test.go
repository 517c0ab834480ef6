package cut_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/serverproc"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

func TestStressRedis(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	cache(t, server.Client(), &redis.Options{Addr: server.Addr()}).attack()
}

func TestStressRedisOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := serverproc.Certificate(t)
	server := testenv.OwnRedis(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	port := serverproc.FreePort(t)
	require.NoError(t, server.Client().ConfigSet(t.Context(), "tls-port", strconv.Itoa(port)).Err())
	cache(t, server.Client(), &redis.Options{Addr: serverproc.Loopback(port), TLSConfig: trust(t, cert)}).attack()
}

const balance = "balance:{account/42}"

// TestTheJudgeFindsBrokenGuards cuts guards that are broken on purpose.
func TestTheJudgeFindsBrokenGuards(t *testing.T) {
	t.Parallel()
	type do = func(ctx context.Context) error
	server := testenv.OwnRedis(t)
	for name, twin := range map[string]struct {
		token, found string
		with         func(do) do
	}{
		"it tells what is unknown as a failure": {"claimed", "told failed, applied 1 times", func(do do) do {
			return func(ctx context.Context) error {
				err := do(ctx)
				if errors.Is(err, guard.ErrUnknown) {
					return errors.New("failed")
				}
				return err
			}
		}},
		"it sends again by itself": {"claimed", "told nil, applied 2 times", func(do do) do {
			return func(ctx context.Context) error {
				err := do(ctx)
				if errors.Is(err, guard.ErrUnknown) {
					return do(ctx)
				}
				return err
			}
		}},
		"it refuses nothing": {"stale", "told nil, applied 1 times", func(do do) do {
			return func(ctx context.Context) error {
				err := do(ctx)
				if errors.Is(err, guard.ErrStale) {
					err = server.Client().Incr(ctx, balance).Err()
				}
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, server.Client().FlushDB(t.Context()).Err())
			s := cache(t, server.Client(), &redis.Options{Addr: server.Addr()})
			s.twin = true
			d := s.doors[2] // Eval, which counts its calls
			d.do = twin.with(d.do)
			s.series(d, twin.token, false, 16)
			require.ErrorContains(t, s.err, twin.found)
		})
	}
}

// cache returns Redis behind a relay.
func cache(t *testing.T, clean *redis.Client, options *redis.Options) *site {
	t.Helper()
	r := newRelay(t, options.Addr)
	options.Addr, options.PoolSize = r.addr(), 100_000 // see testenv.OwnRedis
	var client *redis.Client
	g, direct := &redisguard.Guard{}, &redisguard.Guard{Client: clean}
	renew := func() {
		if client != nil {
			client.Close()
		}
		client = redis.NewClient(options)
		g.Client = client
	}
	renew()
	t.Cleanup(func() { client.Close() })
	s := &site{
		T: t, name: t.Name(), relay: r, number: first, fresh: renew, evicts: true,
		check: func() error { return client.Ping(t.Context()).Err() },
		quiet: func(ports []int) bool {
			list, err := clean.ClientList(t.Context()).Result()
			require.NoError(t, err)
			require.Contains(t, list, " laddr="+clean.Options().Addr+" ")
			for _, port := range ports { // a connection of clean to another port of the server may come from the same one
				if strings.Contains(list, fmt.Sprintf(" addr=127.0.0.1:%d laddr=%s ", port, r.target)) {
					return false
				}
			}
			return true
		},
	}
	of := func(ctx context.Context) token.Token {
		tok, err := token.FromContext(ctx, resource)
		require.NoError(t, err)
		return tok
	}
	holder := func(prefix string) func(tok token.Token) int64 {
		return func(tok token.Token) int64 {
			if _, is, _ := strings.Cut(clean.Get(t.Context(), redisguard.MarkKey(resource)).Val(), " "); is == prefix+tok.Holder {
				return 1
			}
			return 0
		}
	}
	there := func(token.Token) int64 { return clean.Exists(t.Context(), balance).Val() }
	paid := new(work)
	s.doors = []door{
		{name: "Set", count: there, do: func(ctx context.Context) error { return g.Set(ctx, resource, balance, "58", 0) }},
		{name: "HSet", count: there, do: func(ctx context.Context) error { _, err := g.HSet(ctx, resource, balance, "a", "58"); return err }},
		{name: "Eval", count: func(token.Token) int64 {
			n, _ := clean.Get(t.Context(), balance).Int64()
			return n
		}, do: func(ctx context.Context) error {
			_, err := g.Eval(ctx, resource, "return redis.call('INCR', KEYS[1])", []string{balance})
			return err
		}},
		{name: "TxPipelined", count: func(token.Token) int64 {
			n, _ := clean.Get(t.Context(), balance).Int64()
			return n
		}, do: func(ctx context.Context) error {
			_, err := g.TxPipelined(ctx, resource, func(pipe redis.Pipeliner) error { pipe.Incr(ctx, balance); return nil })
			return err
		}},
		{name: "Once", once: paid, count: func(token.Token) int64 {
			n, _ := clean.Get(t.Context(), balance).Int64()
			return n
		}, do: func(ctx context.Context) error {
			_, err := g.Once(ctx, resource, paid.unit(), "return redis.call('INCR', KEYS[1])", []string{balance})
			return err
		}},
		{name: "Admit", mark: true, count: holder(""), do: func(ctx context.Context) error { return g.Admit(ctx, of(ctx)) }},
		{name: "Mint", mark: true, count: holder("m"), do: func(ctx context.Context) error {
			_, err := g.Mint(ctx, resource, "m"+of(ctx).Holder)
			return err
		}},
	}
	for i := range s.doors {
		d := &s.doors[i]
		d.tokens, d.claim = everyToken, direct.Admit
		d.reset = func() { require.NoError(t, clean.Del(t.Context(), balance).Err()) }
		switch d.name {
		case "Admit":
			d.tokens, d.bare = []string{"new", "stale"}, true
		case "Mint":
			d.tokens, d.bare = []string{"new"}, true
		}
	}
	return s
}
