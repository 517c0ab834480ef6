package redisguard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func TestObserveOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.DangerouslyObserve = true
	e.guard.Observer = guard.Observer{
		Refused:  func(_ context.Context, err error) { t.Errorf("refused: %v", err) },
		Observed: func(_ context.Context, err error) { told = append(told, err) },
	}
	mark := guard.Mark{Number: 33, Holder: "a"}
	for verb, do := range doors(e.guard, e.key, "x") {
		require.NoError(t, do(with(t.Context(), 33, "a")), verb)
		require.Empty(t, told, verb)
		for _, c := range []struct {
			ctx  context.Context
			want error
		}{
			{with(t.Context(), 32, "b"), &guard.StaleError{Token: tok(32, "b"), Mark: mark}},
			{with(t.Context(), 33, "b"), &guard.StaleError{Token: tok(33, "b"), Mark: mark}},
			{t.Context(), &token.MissingError{Resource: resource}},
			{with(t.Context(), 34, ""), tok(34, "").Check()},
		} {
			told = nil
			keys := []string{e.key + ":set", e.key + ":hset", e.key + ":eval"}
			require.NoError(t, e.client.Del(t.Context(), keys...).Err())
			require.NoError(t, do(c.ctx), verb)
			require.Equal(t, []error{c.want}, told, verb)
			require.EqualValues(t, 1, e.client.Exists(t.Context(), keys...).Val(), "%s: the write was made all the same", verb)
			require.Equal(t, "33 a", e.mark(), "the mark stays")
		}
		told = nil
	}
	require.NoError(t, e.guard.Admit(t.Context(), tok(32, "b")))
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "")))
	require.Len(t, told, 2)
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	require.Equal(t, "34 b", e.mark(), "it rises where the token is admitted")

	told = nil
	_, err := e.guard.Eval(with(t.Context(), 33, "a"), resource, "error('mine')", nil)
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "an error of the script is none of the guard's")
	require.Len(t, told, 1)
	require.NoError(t, e.client.Set(t.Context(), e.guard.MarkKey(resource), "none", 0).Err())
	require.ErrorContains(t, e.guard.Set(with(t.Context(), 33, "a"), resource, e.key, "x", 0), "holds no mark")
}
