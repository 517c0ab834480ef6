package spent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/spent"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	spent.Note(t.Context(), "account/42") // nobody wants to know
	ctx, notes := spent.Track(t.Context())
	spent.Note(t.Context(), "account/42")
	require.False(t, notes.Has("account/42"), "another context's")

	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	spent.Note(derived, "account/42")
	require.True(t, notes.Has("account/42"))
	require.False(t, notes.Has("account/7"))

	inner, innermost := spent.Track(derived)
	spent.Note(inner, "account/7")
	require.True(t, innermost.Has("account/7"))
	require.True(t, notes.Has("account/7"), "whoever tracks around it, too")
}
