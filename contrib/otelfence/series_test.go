package otelfence_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fencepost/fencepost/contrib/otelfence"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// everything calls every hook for a few resources.
func (b *bench) everything(t *testing.T) {
	t.Helper()
	hooks, err := otelfence.GuardHooks(b.config)
	require.NoError(t, err)
	ctx, o := t.Context(), b.Hooks
	for i := range 50 {
		tok, err := token.New(fmt.Sprintf("account/%d", i), int64(1000+i), fmt.Sprintf("worker:%d", i))
		require.NoError(t, err)
		stale := &guard.StaleError{Token: tok}
		o.Acquired(ctx, tok, ttl)
		o.NotAcquired(ctx, tok.Resource, ttl, &token.HeldError{Resource: tok.Resource, Holder: tok.Holder})
		o.Renewed(ctx, tok, ttl)
		o.RenewFailed(ctx, tok, ttl, errUnreachable)
		o.Lost(ctx, tok, ttl, token.ErrLost)
		o.Released(ctx, tok, ttl, nil)
		o.Refused(ctx, tok, stale)
		o.Collided(ctx, tok, stale)
		o.Recovered(ctx, tok, tok.Number)
		hooks.Refused(ctx, stale)
		hooks.Reported(ctx, stale)
	}
	o.Acquired(ctx, token.Token{Resource: "leader", Number: 1, Holder: "a"}, ttl)
}

// This test is not parallel: it replaces the program's logger.
func TestNoSeriesNamesAResourceANumberOrAHolder(t *testing.T) {
	logged(t)
	for _, kinds := range []bool{false, true} {
		b := newBench(t, kinds)
		b.everything(t)
		for name, points := range b.points(t) {
			require.LessOrEqual(t, len(points), 3, name)
			for _, p := range points {
				require.NotRegexp(t, `\d|worker|account/|leader`, p.attributes, name)
				if strings.HasPrefix(name, "fencepost.lock.") && kinds {
					require.Regexp(t, `fencepost.kind=(account|none)`, p.attributes, name)
				} else {
					require.NotContains(t, p.attributes, "kind", name)
				}
			}
		}
	}
}

// This test is not parallel: it replaces the program's logger.
func TestThePagesListEveryInstrumentWithItsUnit(t *testing.T) {
	logged(t)
	page, err := os.ReadFile("../../docs/observing.md")
	require.NoError(t, err)
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	b := newBench(t, false)
	b.everything(t)
	metrics := b.metrics(t)
	require.Len(t, metrics, 13)
	for _, m := range metrics {
		kind := "counter"
		if _, is := m.Data.(metricdata.Histogram[float64]); is {
			kind = "histogram"
		}
		require.Contains(t, string(page), fmt.Sprintf("| `%s` | %s | `%s` |", m.Name, kind, m.Unit))
		require.Regexp(t, fmt.Sprintf(`//\t%s +%s +%s`, m.Name, kind, m.Unit), string(doc))
		require.NotEmpty(t, m.Description)
	}
}
