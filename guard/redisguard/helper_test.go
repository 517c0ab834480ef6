package redisguard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/redisguard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

const (
	resource = "account/42"
	// ceiling ends what hangs. No test is about its length.
	ceiling = time.Minute
	// ledger has what was written appended, and says how long it is.
	ledger = "return redis.call('RPUSH', KEYS[1], ARGV[1])"
)

// env is one test's part of a server.
type env struct {
	*testing.T
	client *redis.Client
	guard  *redisguard.Guard
	key    string // of what is written
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

// over is the guard with another client.
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

func (e *env) list() []string {
	e.Helper()
	values, err := e.client.LRange(e.Context(), e.key, 0, -1).Result()
	require.NoError(e, err)
	return values
}

// options are those of a client of its own for the env's server.
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

// doors are all ways to write, of which each writes what at key.
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
	}
}

// outcomes are those that errors.Is finds in err: never more than one.
func outcomes(err error) []error {
	var found []error
	for _, outcome := range []error{
		guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrNoRow,
	} {
		if errors.Is(err, outcome) {
			found = append(found, outcome)
		}
	}
	return found
}

// start calls fn on a goroutine of its own.
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
