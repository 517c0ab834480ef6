package redisguard_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// queued returns a function that queues one command of each supported type, and returns
// their results as a program reads them.
func queued(ctx context.Context, key string) (queue func(redis.Pipeliner) error, results func() []any) {
	var read []func() (any, error)
	add := func(result func() (any, error)) { read = append(read, result) }
	queue = func(p redis.Pipeliner) error {
		add(of(p.Set(ctx, key+":s", "1", time.Hour)))
		add(of(p.Get(ctx, key+":s")))
		add(of(p.Get(ctx, key+":missing")))
		add(of(p.SetNX(ctx, key+":s", "2", 0)))
		add(of(p.SetNX(ctx, key+":nx", "2", time.Hour)))
		add(of(p.SetNX(ctx, key+":nx", "3", time.Hour)))
		add(of(p.IncrBy(ctx, key+":s", 41)))
		add(of(p.IncrByFloat(ctx, key+":f", 1.25)))
		add(of(p.HSet(ctx, key+":h", "a", 1, "b", "two", "c", []byte{0, 255})))
		add(of(p.HGetAll(ctx, key+":h")))
		add(of(p.HGetAll(ctx, key+":missing")))
		add(of(p.HMGet(ctx, key+":h", "a", "missing")))
		add(of(p.RPush(ctx, key+":l", "x", "y")))
		add(of(p.LRange(ctx, key+":l", 0, -1)))
		add(of(p.LRange(ctx, key+":missing", 0, -1)))
		add(of(p.ZAdd(ctx, key+":z", redis.Z{Score: 1.5, Member: "m"})))
		add(of(p.ZIncrBy(ctx, key+":z", 2, "m")))
		add(of(p.ZRange(ctx, key+":z", 0, -1)))
		add(of(p.Expire(ctx, key+":l", time.Hour)))
		add(of(p.Expire(ctx, key+":missing", time.Hour)))
		add(of(p.Publish(ctx, key, "news")))
		add(of(p.BitOpOr(ctx, key+":bits", key+":s", key+":nx")))
		add(of(p.Do(ctx, "PTTL", key+":missing")))
		add(of(p.Do(ctx, "GET", key+":missing")))
		add(of(p.Del(ctx, key+":f", key+":nx")))
		return nil
	}
	return queue, func() []any {
		var all []any
		for _, result := range read {
			value, err := result()
			all = append(all, value, err)
		}
		return all
	}
}

func of[T any](cmd interface{ Result() (T, error) }) func() (any, error) {
	return func() (any, error) { return cmd.Result() }
}

func TestTxPipelinedAnswersAsGoRedis(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, protocol := range []int64{2, 3} {
		options := e.options()
		if field := reflect.ValueOf(&options).Elem().FieldByName("Protocol"); field.IsValid() { // go-redis 9.0 has 3 only
			field.SetInt(protocol)
		}
		client := connect(t, options)
		ctx := with(t.Context(), 33, "a")

		queue, want := queued(ctx, e.key+":plain")
		_, err := client.TxPipelined(ctx, queue)
		require.ErrorIs(t, err, redis.Nil, "of the first command without a value")

		queue, got := queued(ctx, e.key+":guarded")
		cmds, err := e.over(client).TxPipelined(ctx, resource, queue)
		require.NoError(t, err)
		require.Len(t, cmds, 25)
		require.Equal(t, want(), got())
		require.NoError(t, client.Del(ctx, client.Keys(ctx, e.key+":*").Val()...).Err())
	}
	require.Equal(t, "33 a", e.mark())
}

// A refusal is the error of each command: a program that looks at one alone sees it.
func TestTxPipelinedGivesEachCommandTheRefusal(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	ctx := with(t.Context(), 33, "a")
	var first, second *redis.IntCmd
	cmds, err := e.guard.TxPipelined(ctx, resource, func(p redis.Pipeliner) error {
		first, second = p.Incr(ctx, e.key), p.Incr(ctx, e.key+":2")
		return nil
	})
	require.ErrorIs(t, err, guard.ErrStale)
	require.Equal(t, []redis.Cmder{first, second}, cmds)
	require.Equal(t, err, first.Err())
	require.Equal(t, err, second.Err())
	require.Zero(t, e.client.Exists(ctx, e.key, e.key+":2").Val())
}

func TestTxPipelinedRunsTheOthersWhereOneFails(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context, redis.Pipeliner, string) redis.Cmder{
		"of another type": func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder {
			return p.LPush(ctx, key+":1", "x")
		},
		"unknown":         func(ctx context.Context, p redis.Pipeliner, _ string) redis.Cmder { return p.Do(ctx, "NOSUCH", "x") },
		"not for scripts": func(ctx context.Context, p redis.Pipeliner, _ string) redis.Cmder { return p.Do(ctx, "WATCH", "x") },
		"a script": func(ctx context.Context, p redis.Pipeliner, _ string) redis.Cmder {
			return p.Eval(ctx, "return 1", nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ctx := with(t.Context(), 33, "a")
			var failed redis.Cmder
			cmds, err := e.guard.TxPipelined(ctx, resource, func(p redis.Pipeliner) error {
				p.Set(ctx, e.key+":1", "before", 0)
				failed = fail(ctx, p, e.key)
				p.Set(ctx, e.key+":2", "after", 0)
				return nil
			})
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.ErrorAs(t, err, new(redis.Error))
			require.ErrorIs(t, err, failed.Err())
			require.NoError(t, cmds[0].Err())
			require.NoError(t, cmds[2].Err())
			require.Equal(t, []any{"before", "after"}, e.client.MGet(ctx, e.key+":1", e.key+":2").Val())
		})
	}
}

// A program may give a command the wrong type. That is found after the write.
func TestTxPipelinedSaysWhichResultItCannotFill(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	require.NoError(t, e.client.RPush(ctx, e.key, "x").Err())
	for what, cmd := range map[string]redis.Cmder{
		"1 to llen":     redis.NewFloatCmd(ctx, "LLEN", e.key),
		"1 to exists":   redis.NewStringSliceCmd(ctx, "EXISTS", e.key),
		"[x] to lrange": redis.NewMapStringStringCmd(ctx, "LRANGE", e.key, 0, -1),
		"2 to rpush":    redis.NewBoolCmd(ctx, "RPUSH", e.key, "y"),
	} {
		_, err := e.guard.TxPipelined(ctx, resource, func(p redis.Pipeliner) error { return p.Process(ctx, cmd) })
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
		require.ErrorContains(t, err, "server answered "+what)
		require.ErrorIs(t, err, cmd.Err())
		require.NoError(t, e.client.LTrim(ctx, e.key, 0, 0).Err())
	}
}

// A number that is not the server's must not look like it.
func TestTxPipelinedReturnsNoRoundedInteger(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	for number, exact := range map[int64]bool{
		1<<53 - 1: true, -1<<53 + 1: true, 1<<53 + 1: false, -1<<53 - 1: false, math.MaxInt64: false, math.MinInt64: false,
	} {
		require.NoError(t, e.client.Del(ctx, e.key).Err())
		var sum, one *redis.IntCmd
		_, err := e.guard.TxPipelined(ctx, resource, func(p redis.Pipeliner) error {
			sum, one = p.IncrBy(ctx, e.key, number), p.Exists(ctx, e.key)
			return nil
		})
		require.Equal(t, strconv.FormatInt(number, 10), e.written())
		require.NoError(t, one.Err())
		require.EqualValues(t, 1, one.Val())
		if exact {
			require.NoError(t, err)
			require.Equal(t, number, sum.Val())
		} else {
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
			require.ErrorContains(t, sum.Err(), "which Lua may have rounded")
			require.Zero(t, sum.Val())
		}
	}
}

func TestTxPipelinedSendsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	mine := errors.New("mine")
	for name, c := range map[string]struct {
		queue func(redis.Pipeliner) error
		want  string
	}{
		"if fn fails":         {func(p redis.Pipeliner) error { p.Set(ctx, e.key, 1, 0); return mine }, "mine"},
		"if fn queues none":   {func(redis.Pipeliner) error { return nil }, ""},
		"if fn has discarded": {func(p redis.Pipeliner) error { p.Set(ctx, e.key, 1, 0); p.Discard(); return nil }, ""},
		"of a type that it cannot fill": {
			func(p redis.Pipeliner) error { p.Set(ctx, e.key, 1, 0); p.TTL(ctx, e.key); return nil },
			"redisguard: txpipelined account/42: the reply of ttl cannot be read as a *redis.DurationCmd: use Do",
		},
		"that writes the mark": {
			func(p redis.Pipeliner) error { p.Del(ctx, e.key, e.guard.MarkKey(resource)); return nil },
			"redisguard: txpipelined account/42: del has the mark's own key",
		},
		"that writes the mark, named by bytes": {
			func(p redis.Pipeliner) error { p.Do(ctx, "DEL", []byte(e.guard.MarkKey(resource))); return nil },
			"redisguard: txpipelined account/42: del has the mark's own key",
		},
		"with more words than a script can pass on": {
			func(p redis.Pipeliner) error {
				p.RPush(ctx, e.key, strings.Fields(strings.Repeat("x ", 7_000)))
				return nil
			},
			"redisguard: txpipelined account/42: rpush has 7002 words: a script can pass on 7000",
		},
		"if fn executes": {execute(e.key, redis.Pipeliner.Exec), errExecuted},
		"if fn executes its TxPipeline": {execute(e.key, func(p redis.Pipeliner, ctx context.Context) ([]redis.Cmder, error) {
			return p.TxPipeline().Exec(ctx)
		}), errExecuted},
		"if fn executes its Pipeline": {execute(e.key, func(p redis.Pipeliner, ctx context.Context) ([]redis.Cmder, error) {
			return p.Pipeline().Exec(ctx)
		}), errExecuted},
		"if fn calls Pipelined": {execute(e.key, func(p redis.Pipeliner, ctx context.Context) ([]redis.Cmder, error) {
			return p.Pipelined(ctx, func(redis.Pipeliner) error { return nil })
		}), errExecuted},
		"if fn calls TxPipelined": {execute(e.key, func(p redis.Pipeliner, ctx context.Context) ([]redis.Cmder, error) {
			return p.TxPipelined(ctx, func(redis.Pipeliner) error { return nil })
		}), errExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			names := &hook{}
			client := connect(t, e.options())
			client.AddHook(names)
			_, err := e.over(client).TxPipelined(ctx, resource, c.queue)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
			require.Empty(t, outcomes(err))
			require.Empty(t, names.names())
		})
	}
	require.Empty(t, e.mark())
	_, err := e.guard.TxPipelined(t.Context(), resource, func(redis.Pipeliner) error { t.Error("called"); return nil })
	require.Error(t, err, "no token in the context")

	_, err = e.guard.TxPipelined(ctx, resource, func(p redis.Pipeliner) error {
		p.RPush(ctx, e.key, strings.Fields(strings.Repeat("x ", 6_998)))
		return nil
	})
	require.NoError(t, err, "as many words as a script can pass on")
}

const errExecuted = "redisguard: TxPipelined executes the pipeline itself, after fn"

// execute returns a function that executes its pipeline, and ignores the error.
func execute(key string, exec func(redis.Pipeliner, context.Context) ([]redis.Cmder, error)) func(redis.Pipeliner) error {
	return func(p redis.Pipeliner) error {
		ctx := context.Background()
		p.Set(ctx, key, 1, 0)
		_, _ = exec(p, ctx)
		return nil
	}
}
