package redisguard_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The mark's form is compared with literals: programs of all versions and languages must
// agree on it.
func TestTheMarkIsPartOfTheFormat(t *testing.T) {
	t.Parallel()
	client := testenv.OwnRedis(t).Client()
	g := &redisguard.Guard{Client: client}
	const key = "fencepost:mark:{account/42}"
	require.Equal(t, key, redisguard.MarkKey("account/42"))

	require.NoError(t, g.Admit(t.Context(), tok(33, "billing:4711 größe")))
	require.Equal(t, "33 billing:4711 größe", client.Get(t.Context(), key).Val())
	require.NoError(t, g.Set(with(t.Context(), 34, "b"), resource, "balance", 7, time.Hour))
	require.Equal(t, "34 b", client.Get(t.Context(), key).Val())
	_, err := g.Mint(t.Context(), resource, "c")
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), client.TTL(t.Context(), key).Val(), "no expiry")

	require.NoError(t, client.Set(t.Context(), key, "999999999999998 d", 0).Err(), "of another program")
	require.ErrorIs(t, g.Admit(t.Context(), tok(34, "b")), guard.ErrStale)
	require.NoError(t, g.Admit(t.Context(), tok(999999999999998, "d")))
}

// The mark outlives the data that it guards.
//
// hazard G9
func TestTheMarkOutlivesTheData(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	require.NoError(t, e.guard.Set(with(t.Context(), 34, "b"), resource, e.key, "x", time.Millisecond))
	eventually(t, func() bool { return e.written() == "" }, "it has expired")
	require.ErrorIs(t, e.guard.Set(with(t.Context(), 33, "a"), resource, e.key, "y", 0), guard.ErrStale)
	require.Empty(t, e.written())

	hash := e.key + ":naive" // contains its mark as a field
	naive := `local m = redis.call('HGET', KEYS[1], 'mark')
		if m and tonumber(m) > tonumber(ARGV[1]) then return 0 end
		redis.call('HSET', KEYS[1], 'mark', ARGV[1], 'value', ARGV[2])
		return 1`
	require.EqualValues(t, 1, e.client.Eval(t.Context(), naive, []string{hash}, 34, "x").Val())
	require.EqualValues(t, 0, e.client.Eval(t.Context(), naive, []string{hash}, 33, "y").Val())
	require.NoError(t, e.client.Del(t.Context(), hash).Err())
	require.EqualValues(t, 1, e.client.Eval(t.Context(), naive, []string{hash}, 33, "y").Val(), "the naive mark must go with the data")
}

// hazard R5
// hazard G14
func TestNumbersAreComparedByTheirDigits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for i, number := range []int64{9, 10, 99, 179516977481431, 179516977481432, token.MaxNumber - 1, token.MaxNumber} {
		holder := strconv.Itoa(i)
		require.NoError(t, e.guard.Set(with(t.Context(), number, holder), resource, e.key, holder, 0))
		require.Equal(t, strconv.FormatInt(number, 10)+" "+holder, e.mark())
		require.ErrorIs(t, e.guard.Set(with(t.Context(), number, "impostor"), resource, e.key, "x", 0), guard.ErrCollision)
		require.ErrorIs(t, e.guard.Set(with(t.Context(), number-1, "late"), resource, e.key, "x", 0), guard.ErrStale)
		require.Equal(t, holder, e.written())
	}

	t.Run("a script that writes numbers by tostring takes two for one", func(t *testing.T) {
		naive := "redis.call('SET', KEYS[1], tonumber(ARGV[1]) .. ''); return redis.call('GET', KEYS[1])"
		one := e.client.Eval(t.Context(), naive, []string{e.key}, "179516977481431").Val()
		require.Equal(t, one, e.client.Eval(t.Context(), naive, []string{e.key}, "179516977481432").Val())
	})
	t.Run("a script that compares text takes 9 for more than 10", func(t *testing.T) {
		naive := "return ARGV[1] > ARGV[2]"
		require.EqualValues(t, 1, e.client.Eval(t.Context(), naive, nil, "9", "10").Val())
	})
}

// hazard G4
// hazard G5
func TestTheHolderDecidesBetweenEqualNumbers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for verb, do := range doors(e.guard, e.key, "x") {
		require.NoError(t, do(with(t.Context(), 33, "a")), verb)
		require.NoError(t, do(with(t.Context(), 33, "a")), "%s: the holder's second write", verb)
		require.ErrorIs(t, do(with(t.Context(), 33, "ab")), guard.ErrCollision, verb)
		require.ErrorIs(t, do(with(t.Context(), 32, "a")), guard.ErrStale, verb)
	}
	naive := func(operator string) func(number int) any {
		return func(number int) any {
			return e.client.Eval(t.Context(), "return 33 "+operator+" tonumber(ARGV[1])", nil, number).Val()
		}
	}
	require.Nil(t, naive("<")(33), "the holder's second write must be refused")
	require.EqualValues(t, 1, naive("<=")(33), "an impostor must be let in")
	require.Nil(t, naive("==")(34), "the new holder must be refused")
}

// hazard G16
func TestMissingOrIncompleteTokensSendNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for verb, do := range doors(e.guard, e.key, "x") {
		require.ErrorIs(t, do(t.Context()), token.ErrMissing, verb)
		require.ErrorIs(t, do(with(t.Context(), 33, "")), token.ErrInvalid, verb)
		require.ErrorIs(t, do(with(t.Context(), token.MaxNumber+1, "a")), token.ErrInvalid, verb)
	}
	require.ErrorIs(t, e.guard.Admit(t.Context(), tok(33, "")), token.ErrInvalid)
	require.Empty(t, e.mark())

	naive := "local m = redis.call('GET', KEYS[1]); redis.call('SET', KEYS[1], ARGV[1]); return m == ARGV[1]"
	require.Nil(t, e.client.Eval(t.Context(), naive, []string{e.key}, "33 ").Val())
	require.EqualValues(t, 1, e.client.Eval(t.Context(), naive, []string{e.key}, "33 ").Val(), "two processes must pass for one")
}

func TestAKeyWithoutAMarkAdmitsNoToken(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	key := e.guard.MarkKey(resource)
	refused := func(t *testing.T) {
		all := doors(e.guard, e.key, "x")
		all["Admit"] = func(ctx context.Context) error { return e.guard.Admit(ctx, tok(token.MaxNumber, "a")) }
		all["Mint"] = func(ctx context.Context) error { _, err := e.guard.Mint(ctx, resource, "a"); return err }
		for verb, do := range all {
			err := do(with(t.Context(), token.MaxNumber, "a"))
			require.ErrorContains(t, err, "holds no mark", verb)
			require.Empty(t, outcomes(err), verb)
			require.False(t, guard.IsRefusal(err), verb)
		}
		require.Zero(t, e.client.Exists(t.Context(), e.doorKeys()...).Val())
	}
	for _, text := range []string{
		"", " ", "33", "33 ", " 33 a", "033 a", "0 a", "-1 a", "+1 a", "33.5 a", "1e3 a", "0x21 a", "a 33", "33\ta",
		"1000000000000000 a", "9007199254740993 a", "nan a", "inf a", "\uff13 a",
	} {
		require.NoError(t, e.client.Set(t.Context(), key, text, 0).Err())
		t.Run(strconv.Quote(text), refused)
		require.Equal(t, text, e.mark())
	}
	require.NoError(t, e.client.Del(t.Context(), key).Err())
	require.NoError(t, e.client.RPush(t.Context(), key, "33 a").Err())
	t.Run("a list", refused)
}

func TestTheMarkItselfCannotBeWritten(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	key := e.guard.MarkKey(resource)
	ctx := with(t.Context(), 33, "a")
	require.ErrorContains(t, e.guard.Set(ctx, resource, key, "1 a", 0), "key is the mark's own key")
	_, err := e.guard.HSet(ctx, resource, key, "a", "b")
	require.ErrorContains(t, err, "key is the mark's own key")
	_, err = e.guard.Eval(ctx, resource, "redis.call('DEL', KEYS[2])", []string{e.key, key})
	require.ErrorContains(t, err, "key is the mark's own key")
	require.Empty(t, e.mark())
}

func TestUnsupportedClientsAreRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	for words, client := range map[string]redis.UniversalClient{
		"no Client": nil, "a Ring moves keys": ring, "an AutoPipeliner sends again": pipeliner{ring},
	} {
		g := &redisguard.Guard{Client: client}
		all := doors(g, "key", "x")
		all["Admit"] = func(ctx context.Context) error { return g.Admit(ctx, tok(33, "a")) }
		all["Mint"] = func(ctx context.Context) error { _, err := g.Mint(ctx, resource, "a"); return err }
		for verb, do := range all {
			require.ErrorContains(t, do(with(t.Context(), 33, "a")), words, verb)
		}
	}
}

// pipeliner has the method by which an AutoPipeliner is recognized.
type pipeliner struct{ redis.UniversalClient }

func (pipeliner) IsBlocking() bool { return true }

func TestMint(t *testing.T) {
	t.Parallel()
	t.Run("is at least the clock, and admitted at once", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		before := e.client.Time(t.Context()).Val()
		first, err := mintedToken(e.guard.Mint(t.Context(), resource, "a"))
		require.NoError(t, err)
		require.Equal(t, resource, first.Resource)
		require.Equal(t, "a", first.Holder)
		require.GreaterOrEqual(t, first.Number, before.UnixMicro()/10)
		require.LessOrEqual(t, first.Number, e.client.Time(t.Context()).Val().UnixMicro()/10)
		require.Equal(t, strconv.FormatInt(first.Number, 10)+" a", e.mark())
		require.NoError(t, e.guard.Set(token.NewContext(t.Context(), first), resource, e.key, "x", 0))

		second, err := mintedToken(e.guard.Mint(t.Context(), resource, "b"))
		require.NoError(t, err)
		require.Greater(t, second.Number, first.Number)
		require.ErrorIs(t, e.guard.Set(token.NewContext(t.Context(), first), resource, e.key, "y", 0), guard.ErrStale)
		require.Equal(t, "x", e.written())
	})
	t.Run("is above a mark that is ahead of the clock, digit by digit, to the last number", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		require.NoError(t, e.guard.Admit(t.Context(), tok(token.MaxNumber-2, "a")))
		for _, want := range []int64{token.MaxNumber - 1, token.MaxNumber} {
			minted, err := mintedToken(e.guard.Mint(t.Context(), resource, "b"))
			require.NoError(t, err)
			require.Equal(t, want, minted.Number)
		}
		_, err := e.guard.Mint(t.Context(), resource, "one too many")
		require.ErrorIs(t, err, token.ErrExhausted)
		require.Equal(t, strconv.Itoa(token.MaxNumber)+" b", e.mark())
	})
	t.Run("refuses invalid names", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, name := range []string{"", "a\n", strings.Repeat("x", token.MaxNameBytes+1)} {
			_, err := e.guard.Mint(t.Context(), resource, name)
			require.ErrorIs(t, err, token.ErrInvalid)
			_, err = e.guard.Mint(t.Context(), name, "a")
			require.ErrorIs(t, err, token.ErrInvalid)
		}
	})
}

// hazard R12
func TestMintedNumbersCompareWithThoseOfTheIssuers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	iss := &redistoken.Issuer{Client: e.client, Prefix: e.key[:strings.IndexByte(e.key, ':')]}
	acquire := func(holder string) token.Token {
		grant, err := iss.Acquire(t.Context(), resource, holder, time.Minute)
		require.NoError(t, err)
		require.NoError(t, iss.Release(t.Context(), grant.Token))
		return grant.Token
	}
	first := acquire("first")
	second, err := mintedToken(e.guard.Mint(t.Context(), resource, "second"))
	require.NoError(t, err)
	require.Greater(t, second.Number, first.Number)
	require.NoError(t, e.guard.Admit(t.Context(), acquire("third")))
	naive := e.client.Incr(t.Context(), e.key).Val()
	require.Less(t, naive, first.Number, "a plain INCR must be refused by every guard for ever")
}
