package redisguard_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

// byHand records a unit after its script, in the context that the script left.
func byHand(script string) string {
	return "if redis.call('EXISTS', KEYS[2]) == 1 then return 'a repeat' end\n" +
		"(function() " + script + " end)()\n" +
		"return redis.call('SET', KEYS[2], 'applied')"
}

// A script's database, replication and protocol hold until the whole script ends, also
// for what follows the script of the caller.
//
// hazard G40
func TestARecordIsWrittenInTheContextOfTheGuard(t *testing.T) {
	t.Parallel()
	const push, result = "redis.call('RPUSH', KEYS[1], ARGV[1]) ", " return {'paid', 1}"
	for name, c := range map[string]struct {
		leaves string
		twin   []string
	}{
		"another database": {"redis.call('SELECT', 5)", []string{"x", "x"}},
		"no replication":   {"redis.set_repl(redis.REPL_NONE)", []string{"x", "x"}},
		"RESP 3":           {"redis.setresp(3)", []string{"x"}},
		"all three":        {"redis.set_repl(redis.REPL_AOF) redis.setresp(3) redis.set_repl(0) redis.call('SELECT', 5)", []string{"x", "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, "--appendonly", "yes", "--appendfsync", "always")
			e := envOn(t, s.client(func(o *redis.Options) { o.DB = 2 }), "own")
			e.guard.Hooks.Reported = func(_ context.Context, err error) { t.Error(err) }
			for number := int64(33); number < 35; number++ {
				got, err := e.guard.Once(with(t.Context(), number, "a"), resource, unit, push+c.leaves+result, []string{e.key}, "x")
				require.NoError(t, err)
				require.Equal(t, []any{"paid", int64(1)}, got)
				require.NoError(t, e.client.Eval(t.Context(), byHand(push+c.leaves), []string{e.key + ":twin", e.key + ":unit"}, "x").Err())
				s.Restart()
			}
			require.Equal(t, []string{"x"}, e.list())
			require.Equal(t, "33 a", e.mark())
			require.NotEmpty(t, e.record())
			require.Equal(t, c.twin, e.client.LRange(t.Context(), e.key+":twin", 0, -1).Val())
			other := s.client(func(o *redis.Options) { o.DB = 5 })
			require.Empty(t, other.Keys(t.Context(), "fencepost:*").Val(), "no record of another guard's")
		})
	}
}

// A unit that is not recorded where it was reserved is unknown, and never runs again.
//
// hazard G40
func TestAUnitWhoseReservationIsLostIsUnknown(t *testing.T) {
	t.Parallel()
	// Neither the script nor the client's options tell the database of this connection.
	selects := func(o *redis.Options) {
		o.OnConnect = func(ctx context.Context, conn *redis.Conn) error { return conn.Select(ctx, 3).Err() }
	}
	e := envOn(t, serve(t).client(selects), "own")
	_, err := e.pay(with(t.Context(), 33, "a"), guard.Unit{Key: "a script that stays"}, "y")
	require.NoError(t, err)
	for name, script := range map[string]string{
		"leaves the database": ledger[len("return "):] + " redis.call('SELECT', 5)",
		"drops the record":    "redis.call('FLUSHDB') " + ledger,
		"writes the record":   "redis.call('SET', redis.call('KEYS', 'fencepost:once:*')[1], 1) " + ledger,
	} {
		require.NoError(t, e.client.FlushAll(t.Context()).Err())
		_, err := e.guard.Once(with(t.Context(), 33, "a"), resource, unit, script, []string{e.key}, "x")
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%s: %v", name, err)
		require.ErrorContains(t, err, "the script was applied", name)
		_, err = e.guard.Once(with(t.Context(), 34, "b"), resource, unit, script, []string{e.key}, "x")
		require.Error(t, err, name)
		require.Equal(t, []string{"x"}, e.list(), name)
	}
}

// A master that was cut off has the record of a unit that the new master has lost.
//
// hazard G41
func TestAFormerMasterAnswersNoRepeat(t *testing.T) {
	t.Parallel()
	was, is := serve(t), serve(t)
	former, next := was.env(), is.env()
	is.ReplicaOf(was.RedisServer)
	require.NoError(t, former.guard.Admit(t.Context(), tok(33, "a")))
	eventually(t, func() bool { return next.mark() == "33 a" })

	// The replica is cut off, and a unit is applied that it does not get. Then it is promoted.
	is.Promote()
	_, err := former.pay(with(t.Context(), 33, "a"), unit, "x")
	require.NoError(t, err)
	was.CutOff()

	_, err = former.pay(with(t.Context(), 33, "a"), unit, "x")
	require.ErrorContains(t, err, "READONLY")
	require.Empty(t, outcomes(err))
	naive := former.client.Exists(t.Context(), former.record()).Val()
	require.EqualValues(t, 1, naive, "a repeat that only reads must be told that the unit was applied")
	require.Empty(t, next.list(), "the unit must be lost")

	_, err = next.pay(with(t.Context(), 33, "a"), unit, "x")
	require.NoError(t, err)
	require.Equal(t, []string{"x"}, next.list())
}
