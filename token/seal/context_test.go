package seal_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

func TestAContextCarriesTheSealOfExactlyOneToken(t *testing.T) {
	t.Parallel()
	r := ring(t, key("2026-11", 'a'))
	s, err := r.Seal(account, time.Time{})
	require.NoError(t, err)
	other, err := r.Seal(token.Token{Resource: "account/7", Number: 34, Holder: "c2f1"}, time.Time{})
	require.NoError(t, err)
	ctx := seal.NewContext(seal.NewContext(t.Context(), s), other)

	for _, want := range []seal.Sealed{s, other} {
		tok, err := token.FromContext(ctx, want.Token.Resource)
		require.NoError(t, err)
		require.Equal(t, want.Token, tok)
		got, ok := seal.FromContext(ctx, tok)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for name, change := range map[string]func(*token.Token){
		"another resource": func(tok *token.Token) { tok.Resource = "account/7" },
		"another number":   func(tok *token.Token) { tok.Number++ },
		"another holder":   func(tok *token.Token) { tok.Holder = "c2f2" },
		"nothing":          func(tok *token.Token) { *tok = token.Token{} },
	} {
		tok := account
		change(&tok)
		got, ok := seal.FromContext(ctx, tok)
		require.False(t, ok, name)
		require.Zero(t, got)
	}
	_, ok := seal.FromContext(t.Context(), account)
	require.False(t, ok)
}

// A newer token has taken the place of the sealed one. A seal that is looked up
// by the resource would be sent with it.
func TestAnOlderSealIsNotGivenToANewerToken(t *testing.T) {
	t.Parallel()
	s, err := ring(t, key("2026-11", 'a')).Seal(account, time.Time{})
	require.NoError(t, err)
	newer := token.Token{Resource: account.Resource, Number: 34, Holder: "d3a2"}
	for name, ctx := range map[string]context.Context{
		"a plain token":     token.NewContext(seal.NewContext(t.Context(), s), newer),
		"an unsealed token": seal.NewContext(seal.NewContext(t.Context(), s), seal.Sealed{Token: newer}),
	} {
		tok, err := token.FromContext(ctx, account.Resource)
		require.NoError(t, err)
		require.Equal(t, newer, tok)
		_, ok := seal.FromContext(ctx, tok)
		require.False(t, ok, name)
	}
}

func TestOfTwoSealsOfATokenTheNewestIsFound(t *testing.T) {
	t.Parallel()
	old, err := ring(t, key("2026-10", 'a')).Seal(account, time.Time{})
	require.NoError(t, err)
	renewed, err := ring(t, key("2026-11", 'b')).Seal(account, time.Time{})
	require.NoError(t, err)
	ctx := seal.NewContext(seal.NewContext(t.Context(), old), renewed)
	got, ok := seal.FromContext(ctx, account)
	require.True(t, ok)
	require.Equal(t, renewed, got)
	require.Equal(t, []token.Token{account}, token.All(ctx))
}
