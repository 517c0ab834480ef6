package redisguard_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestMint(t *testing.T) {
	t.Parallel()
	t.Run("is at least the clock, and admitted at once", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		before := e.client.Time(t.Context()).Val()
		first, err := e.guard.Mint(t.Context(), resource, "a")
		require.NoError(t, err)
		require.Equal(t, resource, first.Resource)
		require.Equal(t, "a", first.Holder)
		require.GreaterOrEqual(t, first.Number, before.UnixMicro()/10)
		require.LessOrEqual(t, first.Number, e.client.Time(t.Context()).Val().UnixMicro()/10)
		require.Equal(t, strconv.FormatInt(first.Number, 10)+" a", e.mark())
		require.NoError(t, e.guard.Set(token.NewContext(t.Context(), first), resource, e.key, "x", 0))

		second, err := e.guard.Mint(t.Context(), resource, "b")
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
			minted, err := e.guard.Mint(t.Context(), resource, "b")
			require.NoError(t, err)
			require.Equal(t, want, minted.Number)
		}
		_, err := e.guard.Mint(t.Context(), resource, "one too many")
		require.ErrorIs(t, err, token.ErrExhausted)
		require.Equal(t, strconv.Itoa(token.MaxNumber)+" b", e.mark())
	})
	t.Run("refuses names that are none", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		for _, name := range []string{"", "a\n", strings.Repeat("x", token.MaxName+1)} {
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
	second, err := e.guard.Mint(t.Context(), resource, "second")
	require.NoError(t, err)
	require.Greater(t, second.Number, first.Number)
	require.NoError(t, e.guard.Admit(t.Context(), acquire("third")))
	naive := e.client.Incr(t.Context(), e.key).Val()
	require.Less(t, naive, first.Number, "a bare INCR must be refused by everybody for ever")
}
