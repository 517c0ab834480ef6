package marks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/marks"
	"github.com/fencepost/fencepost/token"
)

func TestOnlyTheSameMarksAndTokenAreRaised(t *testing.T) {
	t.Parallel()
	tok := token.Token{Resource: "account/42", Number: 34, Holder: "b"}
	older := token.Token{Resource: "account/42", Number: 33, Holder: "a"}
	pool, other := new(int), new(int)
	id := marks.ID{DB: pool, Schema: "fencepost"}
	ctx := marks.NewContext(t.Context(), tok, id)
	require.True(t, marks.Raised(ctx, tok, id))
	require.False(t, marks.Raised(ctx, older, id), "another token")
	require.False(t, marks.Raised(ctx, tok, marks.ID{DB: other, Schema: "fencepost"}), "another pool")
	require.False(t, marks.Raised(ctx, tok, marks.ID{DB: pool, Schema: "other"}), "another schema")
	require.False(t, marks.Raised(ctx, tok, marks.ID{}))
	require.False(t, marks.Raised(t.Context(), tok, id), "no grant has raised marks")
	require.False(t, marks.Raised(marks.NewContext(t.Context(), tok, marks.ID{}), tok, marks.ID{}), "no marks were raised")
}
