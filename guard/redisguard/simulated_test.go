package redisguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/heard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// hazard G2
func TestACounterSurvivesThePause(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
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

func TestSteps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client, p := e.far()
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	steps := func(call func(ctx context.Context) error, number int64) (string, error) {
		var h heard.Record
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
	seen, err := steps(func(ctx context.Context) error { return e.guard.Admit(ctx, tok(33, "a")) }, 33)
	require.NoError(t, err)
	require.Equal(t, "begin undone", seen, "a claim")
}

// The unguarded twin of a simulation: refused by nobody, and in silence.
func TestTheTwinWritesAllTheSame(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.guard.Observer.Refused = func(_ context.Context, err error) { t.Errorf("refused: %v", err) }
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	for verb, do := range doors(e.guard, e.key, "x") {
		require.NoError(t, do(with(point.Observe(t.Context()), 32, "b")), verb)
	}
	require.EqualValues(t, 3, e.client.Exists(t.Context(), e.key+":set", e.key+":hset", e.key+":eval").Val())
	require.NoError(t, e.guard.Admit(point.Observe(t.Context()), tok(32, "b")))
	require.Equal(t, "33 a", e.mark())
}
