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

// record keeps what an observer was told.
type record struct{ refused, observed []error }

func (r *record) observer() guard.Observer {
	return guard.Observer{
		Refused:  func(_ context.Context, err error) { r.refused = append(r.refused, err) },
		Observed: func(_ context.Context, err error) { r.observed = append(r.observed, err) },
	}
}

var refusals = []error{
	&guard.StaleError{Token: tok(32, "b"), Mark: guard.Mark{Number: 33, Holder: "a"}},
	&token.MissingError{Resource: account}, token.ErrReleased, tok(33, "").Check(),
}

func TestJudge(t *testing.T) {
	t.Parallel()
	t.Run("a refusal is told and stands", func(t *testing.T) {
		t.Parallel()
		var told record
		for _, refusal := range refusals {
			require.Equal(t, refusal, told.observer().Judge(t.Context(), refusal, false))
		}
		require.Equal(t, record{refused: refusals}, told)
	})
	t.Run("observed, a refusal is told and let through", func(t *testing.T) {
		t.Parallel()
		var told record
		for _, refusal := range refusals {
			require.NoError(t, told.observer().Judge(t.Context(), refusal, true))
		}
		require.Equal(t, record{observed: refusals}, told)
	})
	t.Run("what is no refusal stands in both modes and is told to nobody", func(t *testing.T) {
		t.Parallel()
		var told record
		for _, err := range []error{nil, io.EOF, guard.ErrRetryable, guard.ErrUnknown} {
			require.Equal(t, err, told.observer().Judge(t.Context(), err, false))
			require.Equal(t, err, told.observer().Judge(t.Context(), err, true))
		}
		require.Zero(t, told)
	})
	t.Run("the observer gets the writer's context", func(t *testing.T) {
		t.Parallel()
		ctx := token.NewContext(t.Context(), tok(32, "b"))
		same := func(got context.Context, _ error) { require.Equal(t, ctx, got) }
		observer := guard.Observer{Refused: same, Observed: same}
		require.Error(t, observer.Judge(ctx, guard.ErrStale, false))
		require.NoError(t, observer.Judge(ctx, guard.ErrStale, true))
	})
	t.Run("nobody need listen to a refusal", func(t *testing.T) {
		t.Parallel()
		require.ErrorIs(t, guard.Observer{}.Judge(t.Context(), guard.ErrStale, false), guard.ErrStale)
	})
}

// It changes the program's logger, so it runs alone.
func TestObservedWithoutAnObserverIsLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)

	require.NoError(t, guard.Observer{}.Judge(t.Context(), refusals[0], true))
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), refusals[0].Error())

	log.Reset()
	require.Error(t, guard.Observer{}.Judge(t.Context(), refusals[0], false))
	require.NoError(t, new(record).observer().Judge(t.Context(), refusals[0], true))
	require.Empty(t, log.String())
}
