package tokenuse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/tokenuse"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	tokenuse.Note(t.Context(), "account/42") // not tracked
	ctx, notes := tokenuse.Track(t.Context())
	tokenuse.Note(t.Context(), "account/42")
	require.False(t, notes.Has("account/42"), "another context's")

	derived, cancel := context.WithCancel(ctx)
	defer cancel()
	tokenuse.Note(derived, "account/42")
	require.True(t, notes.Has("account/42"))
	require.False(t, notes.Has("account/7"))

	inner, innermost := tokenuse.Track(derived)
	tokenuse.Note(inner, "account/7")
	require.True(t, innermost.Has("account/7"))
	require.True(t, notes.Has("account/7"), "an outer Track records too")
}

func TestNothingIsRecordedInAnUntrackedContext(t *testing.T) {
	t.Parallel()
	ctx, notes := tokenuse.Track(t.Context())
	require.Empty(t, notes.Names())
	tokenuse.Note(tokenuse.Untracked(ctx), "account/42")
	require.Empty(t, notes.Names())

	again, inner := tokenuse.Track(tokenuse.Untracked(ctx))
	tokenuse.Note(again, "account/7")
	require.Equal(t, []string{"account/7"}, inner.Names())
	require.Empty(t, notes.Names(), "an untracked context records in no outer notes")
}

func TestNames(t *testing.T) {
	t.Parallel()
	ctx, notes := tokenuse.Track(t.Context())
	for _, name := range []string{"b", "a", "b"} {
		tokenuse.Note(ctx, name)
	}
	require.ElementsMatch(t, []string{"a", "b"}, notes.Names(), "each once")
}
