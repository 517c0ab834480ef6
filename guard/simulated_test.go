package guard_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/token"
)

// This test changes the program's default logger, so it is not parallel.
func TestAnUnguardedTwinRefusesNothingInSilence(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	twin := failpoint.Unguarded(t.Context())

	memory := new(guard.Memory)
	require.NoError(t, memory.Admit(twin, tok(33, "a")))
	for _, bad := range []token.Token{tok(32, "b"), tok(33, "b"), tok(34, "")} {
		require.Error(t, memory.Admit(t.Context(), bad))
		require.NoError(t, memory.Admit(twin, bad))
		require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, memory.Mark(account))
	}
	lost, cancel := context.WithCancelCause(twin)
	cancel(&token.LostError{Token: tok(32, "b")})
	require.NoError(t, memory.Admit(lost, tok(32, "b")), "the lost lease does not prevent the twin's write")

	var got record
	for _, refusal := range refusals {
		require.NoError(t, got.hooks().Outcome(twin, refusal, false))
		require.NoError(t, guard.Hooks{}.Outcome(twin, refusal, false))
		require.NoError(t, guard.Hooks{}.Outcome(twin, refusal, true))
	}
	require.Equal(t, record{reported: refusals}, got)
	require.ErrorIs(t, guard.Hooks{}.Outcome(twin, guard.ErrUnknown, false), guard.ErrUnknown, "no refusal")
	require.Empty(t, log.String())
}
