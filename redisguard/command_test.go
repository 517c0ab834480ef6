package redisguard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestSet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	t.Run("writes what go-redis's Set writes", func(t *testing.T) {
		for _, value := range []any{"", "text", "a\x00\xff\r\n", []byte("bytes"), 42, 1.5, true, time.Hour, time.Unix(1, 0).UTC()} {
			require.NoError(t, e.client.Set(ctx, e.key+":plain", value, 0).Err())
			require.NoError(t, e.guard.Set(ctx, resource, e.key, value, 0))
			require.Equal(t, e.client.Get(ctx, e.key+":plain").Val(), e.written(), "%v", value)
		}
	})
	t.Run("supports the expiries", func(t *testing.T) {
		ttl := func() time.Duration { return e.client.PTTL(ctx, e.key).Val() }
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 1, time.Hour))
		require.InDelta(t, time.Hour, ttl(), float64(time.Minute))
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 1, 1500*time.Second+time.Millisecond))
		require.InDelta(t, 1500*time.Second, ttl(), float64(time.Minute))
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 2, redis.KeepTTL))
		require.Positive(t, ttl())
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 3, 0))
		require.Equal(t, time.Duration(-1), ttl())
	})
	t.Run("sends nothing that go-redis cannot write", func(t *testing.T) {
		require.NoError(t, e.guard.Set(ctx, resource, e.key, "before", 0))
		err := e.guard.Set(with(t.Context(), 34, "b"), resource, e.key, struct{ a chan int }{}, 0)
		require.ErrorContains(t, err, "can't marshal")
		require.Empty(t, outcomes(err))
		require.Equal(t, "before", e.written())
		require.Equal(t, "33 a", e.mark())
		require.NoError(t, e.guard.Set(ctx, resource, e.key, "after", 0), "the connection is good")
	})
	t.Run("panics on the caller's goroutine if the value does", func(t *testing.T) {
		require.PanicsWithValue(t, "no", func() { _ = e.guard.Set(ctx, resource, e.key, panics{}, 0) })
		require.NoError(t, e.guard.Set(ctx, resource, e.key, "after", 0))
	})
}

type panics struct{}

func (panics) MarshalBinary() ([]byte, error) { panic("no") }

func TestHSet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	t.Run("takes fields as go-redis does, and counts the new ones", func(t *testing.T) {
		for _, c := range []struct {
			values []any
			added  int64
		}{
			{[]any{"a", 1, "b", 2}, 2}, {[]any{"a", 3}, 0}, {[]any{map[string]any{"c": 4}}, 1},
			{[]any{[]string{"d", "5", "e", "6"}}, 2},
		} {
			added, err := e.guard.HSet(ctx, resource, e.key, c.values...)
			require.NoError(t, err)
			require.Equal(t, c.added, added)
		}
		require.Equal(t, map[string]string{"a": "3", "b": "2", "c": "4", "d": "5", "e": "6"}, e.client.HGetAll(ctx, e.key).Val())
	})
	t.Run("fails for a key of another type, and nothing was applied", func(t *testing.T) {
		require.NoError(t, e.client.Set(ctx, e.key+":text", "x", 0).Err())
		_, err := e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key+":text", "a", 1)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.ErrorAs(t, err, new(redis.Error))
		require.Empty(t, outcomes(err))
		require.Equal(t, "x", e.client.Get(ctx, e.key+":text").Val())
	})
	t.Run("fails for half a field, and for none", func(t *testing.T) {
		for _, values := range [][]any{{}, {"a"}, {"a", 1, "b"}} {
			_, err := e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key, values...)
			require.ErrorContains(t, err, "redisguard: hset account/42: ")
			require.Empty(t, outcomes(err))
		}
	})
	t.Run("writes nothing if a script cannot pass on all fields", func(t *testing.T) {
		fields := strings.Fields(strings.Repeat("field value ", 5000))
		_, err := e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key+":many", fields)
		require.ErrorContains(t, err, "too many results to unpack")
		require.Empty(t, outcomes(err))
		require.Zero(t, e.client.Exists(ctx, e.key+":many").Val())
		_, err = e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key+":many", fields[:6000])
		require.NoError(t, err)
	})
}

func TestARefusalWritesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.Hooks = guard.Hooks{Refused: func(_ context.Context, err error) { told = append(told, err) }}
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	for verb, do := range doors(e.guard, e.key, "x") {
		told = nil
		err := do(with(t.Context(), 33, "a"))
		require.Equal(t, &guard.StaleError{Token: tok(33, "a"), Mark: guard.Mark{Number: 34, Holder: "b"}}, err, verb)
		require.Equal(t, []error{err}, told)
	}
	require.Zero(t, e.client.Exists(t.Context(), e.doorKeys()...).Val())
	require.Equal(t, "34 b", e.mark())
}

func TestEval(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	keys := []string{e.key, e.key + ":2"}
	args := []any{"x", 2, []byte("y\x00")}

	t.Run("answers as the script alone does", func(t *testing.T) {
		for _, script := range []string{
			"return KEYS[1]", "return #KEYS", "return KEYS", "return ARGV", "return #ARGV", "return {KEYS[2], ARGV[3]}",
			"return _G.KEYS[2]", "local function f() return ARGV[2] end return f()", "return select('#', ...)",
			"return 3.99", "return -1", "return true", "return 'text'", "return ''", "return {}", "return {1, 2, {3, {'x'}}}",
			"return {1, nil, 3}", "return {1, false, 3}", "return redis.status_reply('FINE')", "return {ok = 'FINE'}",
			"return redis.call('SET', KEYS[1], ARGV[1])", "return redis.call('GET', KEYS[1])", "return redis.call('HGETALL', KEYS[2])",
			"if ARGV[1] == 'x' then return 'early' end return 'late'", "for i = 1, 3 do if i == 2 then return i end end",
			"return 'x' -- a comment", "-- a comment\nreturn 1", "--[[ a\nlong one ]] return 1;", "local a <const = 1",
			"return cjson.encode({1})", "return tostring(key) .. tostring(mark) .. tostring(token) .. tostring(write) .. tostring(refused)",
			"return redis.sha1hex(ARGV[1])", "return unpack(ARGV)",
			"redis.setresp(3) return true", "redis.setresp(3) return {map = {err = 'a field'}}", "redis.call('SELECT', 1) return 1",
		} {
			want, wantErr := e.client.Eval(ctx, script, keys, args...).Result()
			got, err := e.guard.Eval(ctx, resource, script, keys, args...)
			if wantErr != nil {
				require.Error(t, err, script)
				continue
			}
			require.NoError(t, err, script)
			require.Equal(t, want, got, script)
		}
	})
	t.Run("reports no refusal of a token that was admitted", func(t *testing.T) {
		e.guard.Hooks.Reported = func(_ context.Context, err error) { t.Error(err) }
		got, err := e.guard.Eval(ctx, resource, "redis.setresp(3) return {double = 1.5}", keys)
		require.NoError(t, err)
		require.Equal(t, 1.5, got)
	})
	t.Run("returns nil if the script returns nothing", func(t *testing.T) {
		for _, script := range []string{"", "return", "return nil", "return false", "return redis.call('GET', 'missing')", "-- nothing"} {
			require.ErrorIs(t, e.client.Eval(ctx, "return 1 == 2", keys).Err(), redis.Nil)
			got, err := e.guard.Eval(ctx, resource, script, keys, args...)
			require.NoError(t, err, script)
			require.Nil(t, got, script)
		}
	})
	t.Run("takes arguments in a slice, and none, and no keys", func(t *testing.T) {
		got, err := e.guard.Eval(ctx, resource, "return ARGV", keys, []string{"a", "b"})
		require.NoError(t, err)
		require.Equal(t, []any{"a", "b"}, got)
		got, err = e.guard.Eval(ctx, resource, "return #ARGV + #KEYS", nil)
		require.NoError(t, err)
		require.Equal(t, int64(0), got)
	})
	t.Run("names the script's own lines", func(t *testing.T) {
		_, err := e.guard.Eval(ctx, resource, "local a = 1\nlocal b = nil\nreturn b.c", nil)
		require.ErrorContains(t, err, "user_script:3: attempt to index local 'b' (a nil value)")
	})
	t.Run("keeps its text on the server", func(t *testing.T) {
		script := "return redis.call('SET', KEYS[1], 'kept')"
		_, err := e.guard.Eval(ctx, resource, script, keys)
		require.NoError(t, err)
		names := &hook{}
		client := connect(t, e.options())
		client.AddHook(names)
		_, err = e.over(client).Eval(ctx, resource, script, keys)
		require.NoError(t, err)
		require.Equal(t, []string{"evalsha"}, names.names())
	})
}

func TestEvalRefusesWhatCannotBeGuarded(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	t.Run("a shebang, and nothing is sent", func(t *testing.T) {
		names := &hook{}
		client := connect(t, e.options())
		client.AddHook(names)
		_, err := e.over(client).Eval(ctx, resource, "#!lua flags=no-writes\nreturn 1", nil)
		require.EqualError(t, err, "redisguard: eval account/42: a script with a shebang cannot be guarded")
		require.Empty(t, names.names())
	})
	for _, script := range []string{
		"return 1 end", "if true then return 1", "--[[ return 1", "return [[ 1", "return 'a", "return 1 return 2", "end end", "goto", "#!lua\nreturn 1"[1:],
		"return 1 end local x = function() if x then", "%",
	} {
		_, err := e.guard.Eval(ctx, resource, script, []string{e.key})
		require.ErrorContains(t, err, "compiling script", script)
		require.Empty(t, outcomes(err), script)
	}
	require.Empty(t, e.mark(), "nothing has run")
}

// Redis does not roll back.
func TestAnErrorInsideOfAScriptLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, said string }{
		"a command":             {"redis.call('LPUSH', KEYS[1], 1)", "WRONGTYPE"},
		"the language":          {"return nil + 1", "attempt to perform arithmetic on a nil value"},
		"error":                 {"error('mine')", "mine"},
		"error without a text":  {"error()", "ERR nil"},
		"error with a table":    {"error({})", "ERR table"},
		"an error that is made": {"error(redis.error_reply('MINE x'))", "MINE x"},
		"an error reply":        {"return redis.error_reply('MINE x')", "MINE x"},
		"a command's error":     {"return redis.pcall('LPUSH', KEYS[1], 1)", "WRONGTYPE"},
		"an error in a table":   {"return {1, {2, redis.error_reply('OOM x')}, 3}", "OOM x"},
		"an answer in a circle": {"local a = {}; a[1] = a; return a", "stack overflow"},
		"what would be retried": {"return redis.error_reply('READONLY x')", "READONLY x"},
		"what would redirect":   {"return {redis.error_reply('MOVED 1 127.0.0.1:1')}", "MOVED 1"},
		"a missing script":      {"return redis.error_reply('NOSCRIPT x')", "NOSCRIPT x"},
		"a coroutine":           {"coroutine.yield()", "yield"},
		"an error that hides":   {"error(setmetatable({}, {__index = error, __tostring = error}))", "ERR table"},
		"an error of errors":    {"error({err = {err = 'READONLY x'}})", "ERR table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			script := "redis.call('SET', KEYS[1], (redis.call('GET', KEYS[1]) or '') .. 'x')\n" + c.script
			_, err := e.guard.Eval(with(t.Context(), 33, "a"), resource, script, []string{e.key})
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			var said redis.Error
			require.ErrorAs(t, err, &said)
			require.Contains(t, said.Error(), c.said)
			require.Equal(t, "x", e.written(), "a part was written, once")
			require.Equal(t, "33 a", e.mark())
		})
	}
}

func TestScriptsAreSentAgainWhereTheServerHasForgottenThem(t *testing.T) {
	t.Parallel()
	e := envOn(t, spare(t), "noscript")
	names := &hook{}
	e.client.AddHook(names)
	all := doors(e.guard, e.key, "x")
	for verb, do := range all {
		require.NoError(t, do(with(t.Context(), 33, "a")), verb)
		require.NoError(t, e.client.ScriptFlush(t.Context()).Err())
		names.reset()
		require.NoError(t, do(with(t.Context(), 33, "a")), verb)
		require.Equal(t, []string{"evalsha", "eval"}, names.names(), verb)
		require.ErrorIs(t, do(with(t.Context(), 32, "a")), guard.ErrStale, verb)
	}
	_, err := e.guard.Eval(with(t.Context(), 33, "a"), resource, ledger, []string{e.key}, "x")
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, e.list(), "the script ran once")
}
