package redisguard_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/redispoint"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// hazard G2
func TestACounterSurvivesThePause(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.client.AddHook(new(redispoint.Hook))
	simulations.Run(t, simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource, Claim: e.guard.Admit,
		Do: func(ctx context.Context) error {
			_, err := e.guard.Eval(ctx, resource, increment, []string{e.key})
			return err
		},
		Count: func(ctx context.Context) (int, error) {
			n, err := e.client.IncrBy(ctx, e.key, 0).Result()
			return int(n), err
		},
	})
}

// hazard G39
func TestAUnitSurvivesThePause(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.client.AddHook(new(redispoint.Hook))
	simulations.Run(t, simulations.Subject{
		Issuer: new(memtoken.Issuer), Resource: resource, Claim: e.guard.Admit,
		DoOnce: func(ctx context.Context, key string) error {
			_, err := e.guard.Once(ctx, resource, guard.Unit{Key: key}, increment, []string{e.key})
			return err
		},
		Count: func(ctx context.Context) (int, error) {
			n, err := e.client.IncrBy(ctx, e.key, 0).Result()
			return int(n), err
		},
	})
}

func TestSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client, p := e.far()
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	steps := func(call func(ctx context.Context) error, number int64) (string, error) {
		var h hooktest.Record
		err := call(with(h.Listen(t.Context()), number, "a"))
		lines := h.Transactions()
		if len(lines) == 0 {
			return "", err
		}
		require.Len(t, lines, 1, "one key")
		return lines[0], err
	}
	for verb, do := range doors(e.guard, e.key, "x") {
		seen, err := steps(do, 33)
		require.NoError(t, err)
		require.Equal(t, "begin applied", seen, verb)
		seen, err = steps(do, 32)
		require.ErrorIs(t, err, guard.ErrStale)
		require.Equal(t, "begin undone", seen, verb)
		seen, err = steps(func(ctx context.Context) error { return do(token.NewContext(ctx, tok(33, ""))) }, 33)
		require.ErrorIs(t, err, token.ErrInvalid)
		require.Empty(t, seen, verb)

		done := e.hold(p, func() error {
			seen, err = steps(doors(e.over(client), e.key, "x")[verb], 33)
			return err
		})
		cut(p)
		require.ErrorIs(t, await(t, done), guard.ErrUnknown)
		require.Equal(t, "begin unknown", seen, verb)
	}
	lost := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(&token.LostError{Token: tok(33, "a")})
		return ctx
	}
	for verb, fails := range map[string]func(ctx context.Context) error{
		"Eval": func(ctx context.Context) error {
			_, err := e.guard.Eval(lost(ctx), resource, "return redis.call('NOSUCH')", nil)
			return err
		},
		"TxPipelined": func(ctx context.Context) error {
			_, err := e.guard.TxPipelined(lost(ctx), resource, func(p redis.Pipeliner) error { p.Do(ctx, "NOSUCH"); return nil })
			return err
		},
	} {
		seen, err := steps(fails, 33)
		require.ErrorIs(t, err, guard.ErrUnknown, verb)
		require.ErrorIs(t, err, token.ErrLost, verb)
		require.Equal(t, "begin unknown", seen, "%s: a part may have been written", verb)
	}
	seen, err := steps(func(ctx context.Context) error { return e.guard.Admit(ctx, tok(33, "a")) }, 33)
	require.NoError(t, err)
	require.Equal(t, "begin undone", seen, "a claim")
}

func TestALostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	for verb, do := range doors(e.guard, e.key, "x") {
		h := hooktest.Record{DropReplies: true}
		err := do(with(h.Listen(t.Context()), 33, "a"))
		require.ErrorIs(t, err, guard.ErrUnknown, verb)
		require.ErrorIs(t, err, failpoint.ErrLost, verb)
		require.Equal(t, []string{"begin unknown"}, h.Transactions(), verb)
		require.Equal(t, []any{h.Keys[0]}, h.ReplyKeys, verb)
		var kept hooktest.Record
		require.NoError(t, do(with(kept.Listen(t.Context()), 33, "a")))
		require.Len(t, kept.ReplyKeys, 1)
		h.ReplyKeys = nil
		require.ErrorIs(t, do(with(h.Listen(t.Context()), 32, "a")), guard.ErrStale, verb)
		require.Empty(t, h.ReplyKeys, verb)
	}
	require.EqualValues(t, 4, e.client.Exists(t.Context(), e.doorKeys()...).Val(), "all are applied")

	h := hooktest.Record{DropReplies: true}
	ctx := with(h.Listen(t.Context()), 34, "a")
	require.NoError(t, e.guard.Admit(ctx, tok(34, "a")))
	_, err := e.guard.Eval(ctx, resource, "return redis.call('NO SUCH COMMAND')", []string{e.key})
	require.Error(t, err)
	require.Empty(t, h.ReplyKeys)
	_, err = e.guard.Eval(ctx, resource, "return redis.call('INCR', KEYS[1])", []string{e.key})
	require.ErrorIs(t, err, guard.ErrUnknown)
	require.Equal(t, "1", e.written())
}

// The unguarded twin of a simulation is not refused, and calls no hooks.
func TestTheTwinWritesAnyway(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.guard.Hooks.Refused = func(_ context.Context, err error) { t.Errorf("refused: %v", err) }
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	for verb, do := range doors(e.guard, e.key, "x") {
		require.NoError(t, do(with(failpoint.Unguarded(t.Context()), 32, "b")), verb)
	}
	require.EqualValues(t, 4, e.client.Exists(t.Context(), e.doorKeys()...).Val())
	require.NoError(t, e.guard.Admit(failpoint.Unguarded(t.Context()), tok(32, "b")))
	require.Equal(t, "33 a", e.mark())
}
