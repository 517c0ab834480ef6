package guard_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// record has the errors with which the hooks were called.
type record struct{ refused, reported []error }

func (r *record) hooks() guard.Hooks {
	return guard.Hooks{
		Refused:  func(_ context.Context, err error) { r.refused = append(r.refused, err) },
		Reported: func(_ context.Context, err error) { r.reported = append(r.reported, err) },
	}
}

var refusals = []error{
	&guard.StaleError{Token: tok(32, "b"), Mark: guard.Mark{Number: 33, Holder: "a"}},
	&token.MissingError{Resource: account}, token.ErrReleased, tok(33, "").Validate(),
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	t.Run("a refusal is reported and returned", func(t *testing.T) {
		t.Parallel()
		var got record
		for _, refusal := range refusals {
			require.Equal(t, refusal, got.hooks().Outcome(t.Context(), refusal, false))
		}
		require.Equal(t, record{refused: refusals}, got)
	})
	t.Run("in report-only mode, a refusal is reported and nil is returned", func(t *testing.T) {
		t.Parallel()
		var got record
		for _, refusal := range refusals {
			require.NoError(t, got.hooks().Outcome(t.Context(), refusal, true))
		}
		require.Equal(t, record{reported: refusals}, got)
	})
	t.Run("other errors are returned in both modes, and call no hook", func(t *testing.T) {
		t.Parallel()
		var got record
		for _, err := range []error{nil, io.EOF, guard.ErrRetryable, guard.ErrUnknown} {
			require.Equal(t, err, got.hooks().Outcome(t.Context(), err, false))
			require.Equal(t, err, got.hooks().Outcome(t.Context(), err, true))
		}
		require.Zero(t, got)
	})
	t.Run("the hooks get the writer's context", func(t *testing.T) {
		t.Parallel()
		ctx := token.NewContext(t.Context(), tok(32, "b"))
		same := func(got context.Context, _ error) { require.Equal(t, ctx, got) }
		hooks := guard.Hooks{Refused: same, Reported: same}
		require.Error(t, hooks.Outcome(ctx, guard.ErrStale, false))
		require.NoError(t, hooks.Outcome(ctx, guard.ErrStale, true))
	})
	t.Run("without hooks, a refusal is returned", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, guard.Hooks{}.Outcome(t.Context(), guard.ErrStale, false), guard.ErrStale)
	})
}

// This test changes the program's default logger, so it is not parallel.
func TestReportOnlyWithoutAHookIsLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)

	require.NoError(t, guard.Hooks{}.Outcome(t.Context(), refusals[0], true))
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), refusals[0].Error())

	log.Reset()
	require.Error(t, guard.Hooks{}.Outcome(t.Context(), refusals[0], false))
	require.NoError(t, new(record).hooks().Outcome(t.Context(), refusals[0], true))
	require.Empty(t, log.String())
}
