package redisguard_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/redisguard"
)

// applied admits a token, and applies a unit.
func (e *env) applied() {
	e.Helper()
	_, err := e.pay(with(e.Context(), 33, "a"), unit, "x")
	require.NoError(e, err)
}

// refuses requires that the server refuses all writes with code, that nothing was
// applied, and that the caller's error matches: if the token has already raised the mark,
// and if it has not. A repeat of the unit that applied has applied is a write too.
//
// hazard G41
func (e *env) refuses(code string) {
	e.Helper()
	for _, number := range []int64{33, 34} {
		before := e.mark()
		all := doors(e.guard, e.key, "x")
		all["Admit"] = func(ctx context.Context) error { return e.guard.Admit(ctx, tok(number, "a")) }
		all["Mint"] = func(ctx context.Context) error { _, err := e.guard.Mint(ctx, resource, "b"); return err }
		all["Once"] = func(ctx context.Context) error { _, err := e.pay(ctx, unit, "x"); return err }
		for verb, do := range all {
			err := do(with(e.Context(), number, "a"))
			require.ErrorContains(e, err, code, verb)
			require.ErrorAs(e, err, new(redis.Error), verb)
			require.Empty(e, outcomes(err), "%s: %v", verb, err)
			require.ErrorContains(e, err, "redisguard: "+strings.ToLower(verb)+" account/42: ")
		}
		require.Equal(e, before, e.mark())
	}
	require.Zero(e, e.client.Exists(e.Context(), e.doorKeys()...).Val())
	require.Equal(e, []string{"x"}, e.list())
}

func TestAReplicaAdmitsNoToken(t *testing.T) {
	t.Parallel()
	master, replica := serve(t), serve(t)
	e := replica.env()
	onMaster := envOn(t, master.client(), "own")
	onMaster.applied()
	replica.ReplicaOf(master.RedisServer)
	require.Equal(t, "33 a", e.mark())

	// From here on it gets no updates, and does not detect that.
	replica.CutOff()
	require.NoError(t, onMaster.guard.Admit(t.Context(), tok(35, "b")))
	e.refuses("READONLY")

	naive := "return redis.call('GET', KEYS[1]) == ARGV[1] and 'admitted' or 'refused'"
	said := e.client.Eval(t.Context(), naive, []string{e.guard.MarkKey(resource)}, "33 a").Val()
	require.Equal(t, "admitted", said, "a script that writes only what is new must be fooled")
}

func TestAFullMemoryRefusesBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	e := serve(t, "--maxmemory-policy", "noeviction").env()
	e.applied()
	e.set("maxmemory", "1")
	e.refuses("OOM")

	t.Run("in the middle of a script it is the same memory", func(t *testing.T) {
		e.set("maxmemory", "0")
		// The script frees memory first, and then fills it.
		_, err := e.guard.Eval(with(t.Context(), 33, "a"), resource, `redis.call('SET', KEYS[1], 'first')
			redis.call('SET', KEYS[1], string.rep('x', 100))`, []string{e.key})
		require.NoError(t, err)
		e.set("maxmemory", "1")
		naive := "redis.call('DEL', KEYS[1]); redis.call('SET', KEYS[1], 'x')"
		_, err = e.guard.Eval(with(t.Context(), 33, "a"), resource, naive, []string{e.key})
		require.ErrorContains(t, err, "OOM")
		require.Empty(t, outcomes(err), "the mark was compared first")
		require.Len(t, e.written(), 100)
	})
}

func TestADiskThatFailsRefusesBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	e := serve(t, "--save", "3600 1").env()
	e.applied()
	folder := filepath.Join(e.client.ConfigGet(t.Context(), "dir").Val()["dir"], "gone")
	require.NoError(t, os.Mkdir(folder, 0o755))
	e.set("dir", folder)
	require.NoError(t, os.Remove(folder)) // permissions would not keep root from writing
	_ = e.client.BgSave(t.Context()).Err()
	eventually(t, func() bool {
		return strings.Contains(e.client.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	e.refuses("MISCONF")
}

func TestTooFewReplicasRefuseBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	e := serve(t).env()
	e.applied()
	e.set("min-replicas-to-write", "1")
	e.refuses("NOREPLICAS")
}

func TestStressAServerThatLoadsRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, "--loading-process-events-interval-bytes", "1024")
	e := s.env()
	require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
	pipe := e.client.Pipeline()
	for i := range 2000 { // the server pauses for each key when it loads
		pipe.RPush(t.Context(), fmt.Sprint("many:", i), strings.Repeat("x", 2048))
	}
	_, err := pipe.Exec(t.Context())
	require.NoError(t, err)
	e.set("key-load-delay", "30000") // a minute for 2000 keys
	reload := s.client(func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = time.Hour, -1 })
	reloaded := start(func() error { return reload.Do(t.Context(), "DEBUG", "RELOAD").Err() })
	eventually(t, func() bool { return strings.HasPrefix(errText(e.client.Get(t.Context(), "a").Err()), "LOADING") })
	hasty := s.client(func(o *redis.Options) { o.MinRetryBackoff, o.MaxRetryBackoff = -1, -1 }) // it retries at once
	for verb, do := range doors(e.over(hasty), e.key, "x") {
		err := do(with(t.Context(), 33, "a"))
		require.ErrorContains(t, err, "LOADING", verb)
		require.Empty(t, outcomes(err), verb)
	}
	s.Kill()
	require.Error(t, await(t, reloaded), "it must be loading still")
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestABusyServerIsRetryable(t *testing.T) {
	t.Parallel()
	s := serve(t, "--busy-reply-threshold", "1")
	e, killer := s.env(), s.client()
	endless := start(func() error { return e.client.Eval(t.Context(), "while true do end", nil).Err() })
	eventually(t, func() bool { return strings.HasPrefix(errText(killer.Ping(t.Context()).Err()), "BUSY") })
	all := doors(e.guard, e.key, "x")
	all["Admit"] = func(ctx context.Context) error { return e.guard.Admit(ctx, tok(33, "a")) }
	for verb, do := range all {
		err := do(with(t.Context(), 33, "a"))
		require.Equal(t, []error{guard.ErrRetryable}, outcomes(err), "%s: %v", verb, err)
	}
	require.NoError(t, killer.ScriptKill(t.Context()).Err())
	require.ErrorContains(t, await(t, endless), "SCRIPT KILL")
	for verb, do := range all {
		require.NoError(t, do(with(t.Context(), 33, "a")), verb)
	}
}

func TestAScriptThatWasAdmittedCannotBeKilled(t *testing.T) {
	t.Parallel()
	for verb, write := range map[string]func(e *env, script string) error{
		"Eval": func(e *env, script string) error {
			_, err := e.guard.Eval(with(t.Context(), 33, "a"), resource, script, []string{e.key}, "x")
			return err
		},
		"Once": func(e *env, script string) error {
			_, err := e.guard.Once(with(t.Context(), 33, "a"), resource, unit, script, []string{e.key}, "x")
			return err
		},
	} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "--busy-reply-threshold", "1", "--appendonly", "yes", "--appendfsync", "always")
			e, killer := s.env(), s.client()
			require.NoError(t, e.guard.Admit(t.Context(), tok(33, "a")))
			endless := start(func() error { return write(e, "redis.call('RPUSH', KEYS[1], ARGV[1]) while true do end") })
			eventually(t, func() bool { return strings.HasPrefix(errText(killer.Ping(t.Context()).Err()), "BUSY") })
			require.ErrorContains(t, killer.ScriptKill(t.Context()).Err(), "UNKILLABLE")
			s.Kill()
			require.ErrorIs(t, await(t, endless), guard.ErrUnknown)
			s.Restart()
			require.Equal(t, "33 a", e.mark())
			require.NoError(t, write(e, ledger))
			require.Equal(t, []string{"x"}, e.list(), "the script, its record and its writes were lost together")
		})
	}
}

func TestAnUnreachableServerIsAnOrdinaryFailure(t *testing.T) {
	t.Parallel()
	client := connect(t, redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	g := &redisguard.Guard{Client: client}
	for verb, do := range doors(g, "key", "x") {
		err := do(with(t.Context(), 33, "a"))
		require.ErrorContains(t, err, "connection refused", verb)
		require.Empty(t, outcomes(err), verb)
	}
}
