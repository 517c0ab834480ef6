package otelfence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/contrib/otelfence"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// refusals returns the errors of guards by the reason under which they are counted.
func refusals(t *testing.T) map[string]error {
	t.Helper()
	tok := token.Token{Resource: account, Number: 7, Holder: "a"}
	_, missing := token.FromContext(t.Context(), account)
	_, invalid := token.New(account, 0, "a")
	return map[string]error{
		"stale":     &guard.StaleError{Token: tok, Mark: guard.Mark{Number: 8, Holder: "b"}},
		"collision": &guard.StaleError{Token: tok, Mark: guard.Mark{Number: 7, Holder: "b"}},
		"missing":   missing,
		"released":  token.ErrReleased,
		"invalid":   invalid,
		"signature": token.ErrBadSignature,
	}
}

func TestAGuardsRefusalsAreCountedByReason(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		hooks, err := otelfence.GuardHooks(b.config)
		require.NoError(t, err)
		var want []point
		for reason, refusal := range refusals(t) {
			require.ErrorIs(t, hooks.Outcome(t.Context(), refusal, false), refusal)
			want = append(want, point{"fencepost.reason=" + reason, 1, 0})
		}
		failure := errors.New("connection reset")
		require.ErrorIs(t, hooks.Outcome(t.Context(), failure, false), failure)
		synctest.Wait()
		got := b.points(t)
		require.ElementsMatch(t, want, got["fencepost.guard.refused"])
		require.NotContains(t, got, "fencepost.guard.reported")
	})
}

// This test is not parallel: it replaces the program's logger.
func TestAReportOnlyGuardCountsAndLogs(t *testing.T) {
	log := logged(t)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, false)
		hooks, err := otelfence.GuardHooks(b.config)
		require.NoError(t, err)
		require.NoError(t, hooks.Outcome(t.Context(), refusals(t)["stale"], true))
		synctest.Wait()
		got := b.points(t)
		require.Equal(t, []point{{"fencepost.reason=stale", 1, 0}}, got["fencepost.guard.reported"])
		require.NotContains(t, got, "fencepost.guard.refused")
	})
	require.Contains(t, log.String(), "guard: report-only, would have refused")
}

func TestARefusalIsAnEventOfTheWritersSpan(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		hooks, err := otelfence.GuardHooks(b.config)
		require.NoError(t, err)
		ctx, span := b.tracer.Start(context.Background(), "deposit")
		_ = hooks.Outcome(ctx, refusals(t)["stale"], false)
		span.End()
		events := b.spans.GetSpans()[0].Events
		require.Len(t, events, 1)
		require.Equal(t, "fencepost.guard.refused", events[0].Name)
		require.Equal(t, []string{
			"fencepost.resource=account/42", "fencepost.number=7", "fencepost.holder=a",
			"error.message=guard: stale token account/42#7: overtaken by #8 of b",
		}, pairs(events[0].Attributes))
	})
}
