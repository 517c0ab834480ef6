package guard_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// It changes the program's logger, so it runs alone.
func TestAnUnguardedTwinRefusesNothingInSilence(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	twin := point.Observe(t.Context())

	memory := new(guard.Memory)
	for _, store := range []guard.Store{memory, guard.DangerouslyObserve{Store: memory}} {
		require.NoError(t, memory.Admit(twin, tok(33, "a")))
		for _, bad := range []token.Token{tok(32, "b"), tok(33, "b"), tok(34, "")} {
			require.Error(t, memory.Admit(t.Context(), bad))
			require.NoError(t, store.Admit(twin, bad))
			require.Equal(t, guard.Mark{Number: 33, Holder: "a"}, memory.Mark(account))
		}
	}
	lost, cancel := context.WithCancelCause(twin)
	cancel(&token.LostError{Token: tok(32, "b")})
	require.NoError(t, memory.Admit(lost, tok(32, "b")), "nothing in memory asks a context")

	var told record
	for _, refusal := range refusals {
		require.NoError(t, told.observer().Judge(twin, refusal, false))
		require.NoError(t, guard.Observer{}.Judge(twin, refusal, false))
		require.NoError(t, guard.Observer{}.Judge(twin, refusal, true))
	}
	require.Equal(t, record{observed: refusals}, told)
	require.ErrorIs(t, guard.Observer{}.Judge(twin, guard.ErrUnknown, false), guard.ErrUnknown, "no refusal")
	require.Empty(t, log.String())
}
