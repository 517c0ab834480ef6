package seal_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

func TestASealedIsPrintedWithoutItsCode(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	s, err := r.Seal(account, time.Unix(1795167374, 0))
	require.NoError(t, err)
	require.Equal(t, "account/42#33 sealed by 2026-11 until 2026-11-20T09:36:14Z", s.String())
	text := printed(t, s) + printed(t, &s)
	for _, verb := range verbs {
		text += fmt.Sprintf(verb, []seal.Sealed{s}) + fmt.Sprintf(verb, map[string]*seal.Sealed{"": &s})
	}
	require.Contains(t, text, s.String())
	silent(t, text, s.Code[:])

	endless, err := r.Seal(account, time.Time{})
	require.NoError(t, err)
	require.Equal(t, "account/42#33 sealed by 2026-11", endless.String())
	require.Equal(t, "account/42#33", seal.Sealed{Token: account}.String())

	// The twin is a struct of the same fields.
	type naive seal.Sealed
	require.Contains(t, fmt.Sprint(naive(s)), fmt.Sprint(s.Code))
}

func TestAContextIsPrintedWithoutTheCode(t *testing.T) {
	t.Parallel()
	s, err := ring(t, key("2026-11", 'a')).Seal(account, time.Time{})
	require.NoError(t, err)
	ctx := seal.NewContext(t.Context(), s)
	outer, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, ctx := range []context.Context{ctx, outer} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			silent(t, fmt.Sprintf(verb, ctx), s.Code[:])
		}
	}
}

func TestAnErrorTellsNoCode(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	right, err := r.Seal(account, time.Unix(1, 0))
	require.NoError(t, err)
	wrong := right
	wrong.Code[0] ^= 1
	for reason, s := range map[seal.Reason]seal.Sealed{
		seal.Expired: right, seal.Wrong: wrong, seal.Unsealed: {Token: account},
		seal.UnknownKey: {Token: account, Key: "2026-10", Code: right.Code},
	} {
		err := r.Verify(s)
		refused(t, err, reason)
		require.NotErrorIs(t, err, token.ErrInvalid)
		silent(t, err.Error(), right.Code[:])
		silent(t, err.Error(), wrong.Code[:])
		silent(t, fmt.Sprintf("%#v %+v", err, err), right.Code[:])
	}
	require.EqualError(t, r.Verify(wrong), `seal: token account/42#33, key "2026-11": wrong`)
	require.EqualError(t, r.Verify(seal.Sealed{Token: account}), `seal: token account/42#33: unsealed`)
}
