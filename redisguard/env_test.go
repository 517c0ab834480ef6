package redisguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

const (
	resource = "account/42"
	// ceiling ends a test that hangs. No test depends on its length.
	ceiling = 2 * time.Minute
	// ledger appends a value, and returns the new length.
	ledger = "return redis.call('RPUSH', KEYS[1], ARGV[1])"
)

// env is a test's part of a server.
type env struct {
	*testing.T
	client *redis.Client
	guard  *redisguard.Guard
	key    string // of the data
}

func newEnv(t *testing.T) *env {
	t.Helper()
	client, prefix := testenv.Redis(t)
	return envOn(t, client, prefix)
}

func envOn(t *testing.T, client *redis.Client, prefix string) *env {
	t.Helper()
	markKey := func(resource string) string { return prefix + ":mark:{" + resource + "}" }
	return &env{
		T: t, client: client, key: prefix + ":{" + resource + "}:written",
		guard: &redisguard.Guard{Client: client, MarkKey: markKey},
	}
}

// over returns the guard with another client.
func (e *env) over(client redis.UniversalClient) *redisguard.Guard {
	return &redisguard.Guard{Client: client, MarkKey: e.guard.MarkKey}
}

func (e *env) mark() string {
	e.Helper()
	mark, err := e.client.Get(context.WithoutCancel(e.Context()), e.guard.MarkKey(resource)).Result()
	if !errors.Is(err, redis.Nil) {
		require.NoError(e, err)
	}
	return mark
}

func (e *env) written() string {
	e.Helper()
	value, err := e.client.Get(e.Context(), e.key).Result()
	if !errors.Is(err, redis.Nil) {
		require.NoError(e, err)
	}
	return value
}

// doorKeys returns the keys that doors writes.
func (e *env) doorKeys() []string {
	return []string{e.key + ":set", e.key + ":hset", e.key + ":eval", e.key + ":txpipelined"}
}

func (e *env) list() []string {
	e.Helper()
	values, err := e.client.LRange(e.Context(), e.key, 0, -1).Result()
	require.NoError(e, err)
	return values
}

// options returns the options for a new client of the env's server.
func (e *env) options() redis.Options {
	given := e.client.Options()
	return redis.Options{Addr: given.Addr, Username: given.Username, Password: given.Password, DB: given.DB}
}

func connect(t *testing.T, options redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	return client
}

func tok(number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

func with(ctx context.Context, number int64, holder string) context.Context {
	return token.NewContext(ctx, tok(number, holder))
}

// doors returns all functions that write; each writes what at key.
func doors(g *redisguard.Guard, key, what string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Set": func(ctx context.Context) error { return g.Set(ctx, resource, key+":set", what, 0) },
		"HSet": func(ctx context.Context) error {
			_, err := g.HSet(ctx, resource, key+":hset", "field", what)
			return err
		},
		"Eval": func(ctx context.Context) error {
			_, err := g.Eval(ctx, resource, "return redis.call('SET', KEYS[1], ARGV[1])", []string{key + ":eval"}, what)
			return err
		},
		"TxPipelined": func(ctx context.Context) error {
			_, err := g.TxPipelined(ctx, resource, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, key+":txpipelined", what, 0)
				return nil
			})
			return err
		},
	}
}

// outcomes returns the outcomes that errors.Is finds in err: at most one.
func outcomes(err error) []error {
	var found []error
	for _, outcome := range []error{
		guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrRowNotFound,
	} {
		if errors.Is(err, outcome) {
			found = append(found, outcome)
		}
	}
	return found
}

// start calls fn on a new goroutine.
func start(fn func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return done
}

func await(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(ceiling):
		t.Fatal("it does not return")
		return nil
	}
}

func eventually(t *testing.T, condition func() bool, words ...any) {
	t.Helper()
	require.Eventually(t, condition, ceiling, 2*time.Millisecond, words...)
}

// far returns a client behind a network that breaks. Its own retries are enabled. It has
// no read timeout: the test decides when a reply is lost.
func (e *env) far(change ...func(*redis.Options)) (*redis.Client, *netfault.Proxy) {
	e.Helper()
	options := e.options()
	p, err := netfault.Start(options.Addr)
	require.NoError(e, err)
	e.Cleanup(p.Close)
	options.Addr, options.MaxRetries, options.MinRetryBackoff = p.Addr(), 3, -1
	options.ReadTimeout = time.Hour
	for _, change := range change {
		change(&options)
	}
	return connect(e.T, options), p
}

// hold calls do, and holds back the server's reply. do has been called before, so that
// there is a connection.
func (e *env) hold(p *netfault.Proxy, do func() error) <-chan error {
	e.Helper()
	require.NoError(e, do())
	keys := append(e.doorKeys(), e.key)
	require.NoError(e, e.client.Del(e.Context(), keys...).Err())
	p.Blackhole(netfault.ToClient)
	done := start(do)
	eventually(e.T, func() bool { return e.client.Exists(e.Context(), keys...).Val() > 0 }, "it is applied")
	return done
}

// cut drops the data that was held back, and resets the connections. New ones work.
func cut(p *netfault.Proxy) {
	p.Reset() // not Cut, which would reset the connections of a client that retries
	p.Heal(netfault.Both)
}

// server is a test's own server, with its own settings: a replica, a node of a Cluster,
// one that may be killed.
type server struct {
	*testing.T
	*testenv.RedisServer
}

// serve starts a server, without persistence unless the settings enable it.
func serve(t *testing.T, settings ...string) *server {
	t.Helper()
	settings = append([]string{"--enable-protected-configs", "yes", "--enable-debug-command", "yes"}, settings...)
	return &server{t, testenv.OwnRedis(t, settings...)}
}

// client returns a client that does not wait between two attempts.
func (s *server) client(change ...func(*redis.Options)) *redis.Client {
	s.Helper()
	options := redis.Options{Addr: s.Addr(), MinRetryBackoff: -1}
	for _, change := range change {
		change(&options)
	}
	return connect(s.T, options)
}

// env returns the server's env. The server is empty.
func (s *server) env() *env { s.Helper(); return envOn(s.T, s.client(), "own") }

func (e *env) set(setting, value string) {
	e.Helper()
	require.NoError(e, e.client.ConfigSet(e.Context(), setting, value).Err())
}

// mintedToken returns the token of a Mint's context.
func mintedToken(ctx context.Context, err error) (token.Token, error) {
	return tokenctx.Entries[token.Token](ctx).Token, err
}
