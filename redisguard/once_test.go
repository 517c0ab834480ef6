package redisguard_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/hooktest"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
)

var unit = guard.Unit{Key: "payment/7", Fingerprint: "100 EUR"}

// pay is a unit of work: it appends what to the list, and returns the new length.
func (e *env) pay(ctx context.Context, u guard.Unit, what string) (any, error) {
	return e.guard.Once(ctx, resource, u, ledger, []string{e.key}, what)
}

// record returns the key of the record of the only unit.
func (e *env) record() string {
	e.Helper()
	keys, err := e.client.Keys(e.Context(), "fencepost:once:*"+e.guard.MarkKey(resource)).Result()
	require.NoError(e, err)
	require.Len(e, keys, 1)
	return keys[0]
}

func TestOnceReturnsTheFirstResult(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first, err := e.pay(with(t.Context(), 33, "a"), unit, "x")
	require.NoError(t, err)
	require.Equal(t, int64(1), first)
	for who, ctx := range map[string]context.Context{
		"the same holder":       with(t.Context(), 33, "a"),
		"a successor":           with(t.Context(), 34, "b"),
		"a stale holder":        with(t.Context(), 32, "z"),
		"a holder with a clash": with(t.Context(), 33, "impostor"),
	} {
		again, err := e.pay(ctx, unit, "y")
		require.NoError(t, err, who)
		require.Equal(t, first, again, who)
	}
	require.Equal(t, []string{"x"}, e.list())
	require.Equal(t, "33 a", e.mark(), "a repeat raises no mark")
}

func TestOnceRefusesAStaleHolderWhoseUnitWasNotApplied(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.Hooks.Refused = func(_ context.Context, err error) { told = append(told, err) }
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	_, err := e.pay(with(t.Context(), 33, "a"), unit, "x")
	require.Equal(t, []error{guard.ErrStale}, outcomes(err))
	require.Equal(t, []error{err}, told)
	require.Empty(t, e.list())

	_, err = e.pay(with(t.Context(), 34, "b"), unit, "y")
	require.NoError(t, err, "the refusal was not recorded")
	require.Equal(t, []string{"y"}, e.list())
}

func TestOnceTellsUnitsApart(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	_, err := e.pay(ctx, unit, "x")
	require.NoError(t, err)

	_, err = e.pay(ctx, guard.Unit{Key: unit.Key, Fingerprint: "200 EUR"}, "y")
	require.ErrorIs(t, err, guard.ErrKeyReused)
	require.Empty(t, outcomes(err))
	require.ErrorContains(t, err, "redisguard: once account/42: ")
	require.Equal(t, []string{"x"}, e.list())

	_, err = e.pay(ctx, guard.Unit{Key: "payment/8", Fingerprint: unit.Fingerprint}, "another key")
	require.NoError(t, err)
	other := token.NewContext(ctx, token.Token{Resource: "account/43", Number: 33, Holder: "a"})
	_, err = e.guard.Once(other, "account/43", unit, ledger, []string{e.key}, "another resource")
	require.NoError(t, err)
	require.Equal(t, []string{"x", "another key", "another resource"}, e.list())
}

// A result is that of Eval, and a repeat's is the same.
func TestOnceKeepsEachResult(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	for name, script := range map[string]string{
		"nothing":      "",
		"nil":          "return nil",
		"false":        "return false",
		"true":         "return true",
		"text":         "return ARGV[1]",
		"empty":        "return ''",
		"a number":     "return 9007199254740991",
		"a fraction":   "return -3.7",
		"status":       "return redis.status_reply('FINE')",
		"a command's":  "return redis.call('SET', KEYS[1], 1)",
		"list":         "return {1, 'two', {3, {'four'}}, true}",
		"a list's end": "return {1, nil, 3}",
		"no list":      "return {}",
		"a hole":       "return {1, false, 3}",
		"an object":    "return {a = 1}",
		"15 tables":    nest(15),
		"64 KiB":       "return string.rep('x', 65536 - 41 - 5)",
		"a map":        "redis.setresp(3) return {map = {err = 'a field', [1] = {double = 1.5}}}",
		"a set":        "redis.setresp(3) return {1, {set = {err = true}}}",
		"a hash":       "redis.call('HSET', KEYS[1] .. ':hash', 'err', 'x', 'b', 2) redis.setresp(3) return redis.call('HGETALL', KEYS[1] .. ':hash')",
		"a double":     "redis.setresp(3) return {double = -1/3}",
		"a score":      "redis.call('ZADD', KEYS[1] .. ':set', '1.5', 'x') redis.setresp(3) return redis.call('ZSCORE', KEYS[1] .. ':set', 'x')",
		"a big number": "redis.setresp(3) return {big_number = '12345678901234567890'}",
		"a null":       "redis.setresp(3) return {1, redis.call('GET', 'missing'), 3}",
	} {
		args := []any{"a\x00\xff\r\n"}
		want, err := e.guard.Eval(ctx, resource, script, []string{e.key + ":eval"}, args...)
		require.NoError(t, err, name)
		for _, attempt := range []string{"first", "repeat"} {
			got, err := e.guard.Once(ctx, resource, guard.Unit{Key: name}, script, []string{e.key + ":once"}, args...)
			require.NoError(t, err, name)
			require.Equal(t, want, got, "%s: %s", name, attempt)
		}
	}
}

func TestOnceConvertsBooleansAsWithoutRESP3(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for range 2 {
		got, err := e.guard.Once(with(t.Context(), 33, "a"), resource, unit, "redis.setresp(3) return {true, false, 'x'}", nil)
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), nil, "x"}, got)
	}
}

// nest returns a script that returns n tables within one another.
func nest(n int) string { return "return " + strings.Repeat("{", n) + "'x'" + strings.Repeat("}", n) }

// Redis does not roll back. A repeat would double what was written before the failure.
func TestOnceRunsAFailedScriptOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	push := "redis.call('RPUSH', KEYS[1], ARGV[1]) "
	for name, c := range map[string]struct{ script, err string }{
		"fails":               {push + "error('no')", "no"},
		"returns an error":    {push + "return redis.error_reply('ERR no')", "ERR no"},
		"an error in a list":  {push + "return {1, {err = 'ERR no'}}", "ERR no"},
		"a command fails":     {push + "redis.call('GET', KEYS[1])", "WRONGTYPE"},
		"is too long":         {push + "return string.rep('x', 70000)", "longer than can be recorded"},
		"is nested too deep":  {push + nest(16), "nested too deeply"},
		"fails with an array": {push + "error({err = 'ERR no'})", "ERR no"},
		"fails in RESP 3":     {push + "redis.setresp(3) return {map = {a = {err = 'ERR no'}}}", "ERR no"},
		"is an error and map": {push + "return {err = 'ERR no', map = {}}", "ERR no"},
		"hides its error":     {push + "error(setmetatable({}, {__index = error, __tostring = error}))", "ERR table"},
		"an error of errors":  {push + "error({err = {err = 'ERR no'}})", "ERR table"},
	} {
		key := e.key + ":" + name
		var texts []string
		for number := int64(33); number < 36; number++ {
			_, err := e.guard.Once(with(t.Context(), number, "a"), resource, guard.Unit{Key: name}, c.script, []string{key}, "x")
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), name)
			require.ErrorAs(t, err, new(redis.Error), name)
			require.ErrorContains(t, err, c.err, name)
			texts = append(texts, err.Error())
		}
		require.Equal(t, texts[0], texts[1], name)
		require.Equal(t, []string{"x"}, e.client.LRange(t.Context(), key, 0, -1).Val(), name)
	}
}

// Each of these is refused before anything is sent.
func TestOnceRefusesWhatItCannotRecord(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	_, err := e.pay(ctx, unit, "x")
	require.NoError(t, err)

	_, err = e.pay(ctx, guard.Unit{}, "y")
	invalid := new(token.InvalidError)
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, "key", invalid.Part)
	negative := *e.guard
	negative.Retention = -time.Second
	_, err = negative.Once(ctx, resource, unit, ledger, []string{e.key}, "y")
	require.ErrorContains(t, err, "Retention is negative")
	_, err = e.guard.Once(ctx, resource, unit, "#!lua\nreturn 1", nil)
	require.ErrorContains(t, err, "shebang")
	for _, own := range []string{e.record(), e.guard.MarkKey(resource)} {
		_, err = e.guard.Once(ctx, resource, unit, "return redis.call('DEL', KEYS[1])", []string{own})
		require.ErrorContains(t, err, "own key")
	}
	_, err = e.pay(t.Context(), unit, "y")
	require.ErrorIs(t, err, token.ErrMissing)
	require.Equal(t, []string{"x"}, e.list())
}

func TestOnceFailsForAKeyThatHoldsNoUnit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	_, err := e.pay(ctx, unit, "x")
	require.NoError(t, err)
	record := e.record()
	whole := e.client.Get(ctx, record).Val()
	for name, put := range map[string]func() error{
		"text":         func() error { return e.client.Set(ctx, record, "text", 0).Err() },
		"nothing":      func() error { return e.client.Set(ctx, record, "", 0).Err() },
		"half":         func() error { return e.client.Set(ctx, record, whole[:len(whole)-2], 0).Err() },
		"no outcome":   func() error { return e.client.Set(ctx, record, whole[:32]+"\x01", 0).Err() },
		"another type": func() error { e.client.Del(ctx, record); return e.client.HSet(ctx, record, "a", 1).Err() },
	} {
		require.NoError(t, put(), name)
		_, err = e.pay(ctx, unit, "y")
		require.ErrorContains(t, err, "holds no unit", name)
		require.Empty(t, outcomes(err), name)
	}
	require.Equal(t, []string{"x"}, e.list())
}

// The record ends with the retention, and exactly-once with it.
func TestOnceEndsWithTheRetention(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	_, err := e.pay(ctx, unit, "x")
	require.NoError(t, err)
	record := e.record()
	require.InDelta(t, guard.DefaultRetention, e.client.PTTL(ctx, record).Val(), float64(time.Hour))
	require.NoError(t, e.client.PExpire(ctx, record, 0).Err())

	e.guard.Retention = time.Hour
	_, err = e.pay(ctx, unit, "y")
	require.NoError(t, err)
	require.InDelta(t, time.Hour, e.client.PTTL(ctx, record).Val(), float64(time.Minute))
	require.Equal(t, []string{"x", "y"}, e.list(), "a unit that is not recorded any more is applied again")
}

// The reply is lost, or the caller leaves: the caller repeats.
//
// hazard G39
func TestOnceSurvivesALostReply(t *testing.T) {
	t.Parallel()
	const key = "own:{" + resource + "}:written"
	type write func(ctx context.Context, g *redisguard.Guard, u guard.Unit, what string) error
	for name, c := range map[string]struct {
		write write
		want  []string
	}{
		"Once": {func(ctx context.Context, g *redisguard.Guard, u guard.Unit, what string) error {
			_, err := g.Once(ctx, resource, u, ledger, []string{key}, what)
			return err
		}, []string{"first"}},
		"the twin, with Eval": {func(ctx context.Context, g *redisguard.Guard, _ guard.Unit, what string) error {
			_, err := g.Eval(ctx, resource, ledger, []string{key}, what)
			return err
		}, []string{"first", "repeat"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := serve(t).env()
			client, p := e.far()
			ctx := with(t.Context(), 33, "a")
			require.NoError(t, c.write(ctx, e.over(client), guard.Unit{Key: "loads the script"}, "x"))
			require.NoError(t, e.client.Del(ctx, key).Err())
			p.Blackhole(netfault.ToClient)
			done := start(func() error { return c.write(ctx, e.over(client), unit, "first") })
			eventually(t, func() bool { return len(e.list()) == 1 }, "it is applied")
			cut(p)
			require.ErrorIs(t, await(t, done), guard.ErrUnknown)
			require.NoError(t, c.write(with(t.Context(), 34, "b"), e.guard, unit, "repeat"))
			require.Equal(t, c.want, e.list())
		})
	}
}

func TestOnceAtTheSameTime(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var all sync.WaitGroup
	for i := range int64(16) {
		all.Go(func() {
			got, err := e.pay(with(t.Context(), 33+i%4, "h"), unit, "x")
			if err == nil { // or stale
				require.Equal(t, int64(1), got)
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"x"}, e.list())
}

// On a server that takes no writes nothing is recorded, also in report-only mode, which
// may write no mark.
func TestOnceOnAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	e := serve(t, "--maxmemory-policy", "noeviction").env()
	e.set("maxmemory", "1")
	for _, reportOnly := range []bool{false, true} {
		e.guard.DangerouslyReportOnly = reportOnly
		for _, ctx := range []context.Context{t.Context(), with(t.Context(), 33, "a")} {
			if _, err := token.FromContext(ctx, resource); err != nil && !reportOnly {
				continue
			}
			_, err := e.guard.Once(ctx, resource, unit, "redis.call('DEL', KEYS[1]); redis.call('SET', KEYS[1], 'x')", []string{e.key})
			require.ErrorContains(t, err, "OOM")
			require.Empty(t, outcomes(err))
		}
	}
	e.set("maxmemory", "0")
	require.Empty(t, e.client.Keys(t.Context(), "*").Val())
}

func TestOnceInReportOnlyMode(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	e.guard.DangerouslyReportOnly = true
	var told []error
	e.guard.Hooks.Reported = func(_ context.Context, err error) { told = append(told, err) }
	for range 2 {
		got, err := e.pay(with(t.Context(), 33, "a"), unit, "x")
		require.NoError(t, err)
		require.Equal(t, int64(1), got)
	}
	require.Len(t, told, 1, "the repeat does not write")
	require.Equal(t, []string{"x"}, e.list())
}

// hazard R8
func TestStressARecordSharesTheSlotOfItsMark(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	for name, markKey := range map[string]func(string) string{
		"by default": nil,
		"no tag":     func(resource string) string { return "mark:" + resource },
		"a tag":      func(string) string { return "mark:{elsewhere}" },
		"half a tag": func(string) string { return "mark:{elsewhere" },
		"no end":     func(string) string { return "mark:{}elsewhere" },
	} {
		g := &redisguard.Guard{Client: c.client(), MarkKey: markKey}
		for range 2 {
			_, err := g.Once(with(t.Context(), 33, "a"), resource, unit, "return 1", nil)
			if name == "no end" {
				require.ErrorContains(t, err, "CROSSSLOT")
				continue
			}
			require.NoError(t, err, name)
		}
	}
}

func TestStepsOfOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var h hooktest.Record
	steps := func(number int64, u guard.Unit) (string, error) {
		h = hooktest.Record{}
		_, err := e.pay(with(h.Listen(t.Context()), number, "a"), u, "x")
		require.Len(t, h.Transactions(), 1)
		return h.Transactions()[0], err
	}
	tried := failpoint.Tried{Resource: resource, Key: unit.Key}
	seen, err := steps(33, unit)
	require.NoError(t, err)
	require.Equal(t, "begin applied", seen)
	require.Equal(t, []any{tried}, h.Notes)
	seen, err = steps(32, unit)
	require.NoError(t, err)
	require.Equal(t, "begin undone", seen, "this call wrote nothing")
	require.Equal(t, []any{tried, failpoint.Repeated{Resource: resource, Key: unit.Key}}, h.Notes)
	seen, err = steps(32, guard.Unit{Key: "another"})
	require.ErrorIs(t, err, guard.ErrStale)
	require.Equal(t, "begin undone", seen)
}
