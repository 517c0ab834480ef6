package otelfence_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// The issuer had forgotten: the guard has seen a greater number than it grants.
// Not parallel: it takes the program's logger.
func TestARefusalAndItsHealingAreCountedAndLogged(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, false)
		marks := new(guard.Memory)
		b.Claim = marks.Admit
		require.NoError(t, b.Hold(t.Context(), account, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, account)
			require.NoError(t, err)
			newer := token.Token{Resource: account, Number: tok.Number + 1000, Holder: "before it forgot"}
			return marks.Admit(ctx, newer)
		}))
		require.NoError(t, b.Hold(t.Context(), account, pause(0)), "the acquisition after the refused one is admitted")
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.refused"])
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.healed"])
		require.Equal(t, []point{{"", 3, 0}}, got["fencepost.lock.acquired"])
		require.NotContains(t, got, "fencepost.lock.collided")
	})
	require.Contains(t, log.String(), "the issuer had forgotten its numbers")
	require.Contains(t, log.String(), account)
}

func TestACollisionIsCountedAsOne(t *testing.T) {
	observed(t, false, func(t *testing.T, b *bench) {
		marks := new(guard.Memory)
		err := b.Hold(t.Context(), account, func(ctx context.Context) error {
			tok, err := token.FromContext(ctx, account)
			require.NoError(t, err)
			require.NoError(t, marks.Admit(ctx, token.Token{Resource: account, Number: tok.Number, Holder: "its twin"}))
			return marks.Admit(ctx, tok)
		})
		require.ErrorIs(t, err, guard.ErrCollision)
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"", 1, 0}}, got["fencepost.lock.collided"])
		require.NotContains(t, got, "fencepost.lock.refused")
	})
}

// logged returns what the program's logger says until t ends.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}
