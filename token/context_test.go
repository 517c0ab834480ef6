package token_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
)

func TestAContextCarriesOneTokenPerResource(t *testing.T) {
	t.Parallel()
	one, two, other := token.Token{account, 33, "a"}, token.Token{account, 34, "b"}, token.Token{"invoice/7", 5, "a"}
	outer := token.NewContext(token.NewContext(t.Context(), other), one)
	inner := token.NewContext(outer, two)
	require.Equal(t, one, fromContext(t, outer, account))
	require.Equal(t, two, fromContext(t, inner, account), "the newest counts")
	require.Equal(t, other, fromContext(t, inner, "invoice/7"))
	require.Equal(t, two, fromContext(t, context.WithoutCancel(inner), account))
}

func TestAllIsSortedAndHasOneOfEach(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	require.Empty(t, token.All(ctx))
	for number, resource := range []string{"b", "ä", "a", "b", "B", "a/1"} {
		ctx = token.NewContext(ctx, token.Token{Resource: resource, Number: int64(number + 1), Holder: "h"})
	}
	require.Equal(t, []token.Token{{"B", 5, "h"}, {"a", 3, "h"}, {"a/1", 6, "h"}, {"b", 4, "h"}, {"ä", 2, "h"}}, token.All(ctx))
}

func TestFromContextFailsClosed(t *testing.T) {
	t.Parallel()
	ctx := token.NewContext(token.NewContext(t.Context(), token.Token{"b", 1, "h"}), token.Token{"a", 1, "h"})
	tok, err := token.FromContext(ctx, account)
	require.Zero(t, tok)
	require.ErrorIs(t, err, token.ErrMissing)
	var missing *token.MissingError
	require.True(t, errors.As(err, &missing))
	require.Equal(t, &token.MissingError{Resource: account, Have: []string{"a", "b"}}, missing)

	_, err = token.FromContext(t.Context(), account)
	require.ErrorIs(t, err, token.ErrMissing)
	for _, incomplete := range []token.Token{{account, 0, "a"}, {account, 33, ""}, {account, token.MaxNumber + 1, "a"}} {
		_, err = token.FromContext(token.NewContext(ctx, incomplete), account)
		require.ErrorIs(t, err, token.ErrInvalid)
	}
}

func fromContext(t *testing.T, ctx context.Context, resource string) token.Token {
	t.Helper()
	tok, err := token.FromContext(ctx, resource)
	require.NoError(t, err)
	return tok
}
