package otelfence_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/fencepost/fencepost/contrib/otelfence"
	"github.com/fencepost/fencepost/internal/test/doccheck"
	"github.com/fencepost/fencepost/lock"
)

// This test is not parallel: it replaces the program's providers.
func TestTheZeroConfigUsesTheGlobalProviders(t *testing.T) {
	meters, tracers := otel.GetMeterProvider(), otel.GetTracerProvider()
	t.Cleanup(func() {
		otel.SetMeterProvider(meters)
		otel.SetTracerProvider(tracers)
	})
	b := newBench(t, false)
	otel.SetMeterProvider(b.config.MeterProvider)
	otel.SetTracerProvider(b.config.TracerProvider)
	hooks, err := otelfence.Hooks(otelfence.Config{})
	require.NoError(t, err)
	ctx, span := b.tracer.Start(t.Context(), "job")
	hooks.Acquired(ctx, tok, ttl)
	span.End()
	require.Equal(t, []point{{"", 1, 0}}, b.points(t)["fencepost.lock.acquired"])
	require.Len(t, b.spans.GetSpans(), 2)
}

var errNoInstrument = errors.New("no instrument")

// barren is a provider that makes no counters.
type barren struct{ noop.MeterProvider }

func (barren) Meter(string, ...metric.MeterOption) metric.Meter { return barrenMeter{} }

type barrenMeter struct{ noop.Meter }

func (barrenMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return nil, errNoInstrument
}

func TestAProviderThatMakesNoInstrumentIsAnError(t *testing.T) {
	t.Parallel()
	hooks, err := otelfence.Hooks(otelfence.Config{MeterProvider: barren{}})
	require.ErrorIs(t, err, errNoInstrument)
	require.Equal(t, lock.Hooks{}, hooks, "an error returns no hooks")
	_, err = otelfence.GuardHooks(otelfence.Config{MeterProvider: barren{}})
	require.ErrorIs(t, err, errNoInstrument)
}

func TestThePageQuotesCodeThatCompiles(t *testing.T) {
	t.Parallel()
	doccheck.Check(t, "../../docs/observing.md", ".")
}
