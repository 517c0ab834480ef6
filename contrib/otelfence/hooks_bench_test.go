package otelfence_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/fencepost/fencepost/contrib/otelfence"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

func configs() map[string]otelfence.Config {
	sdk := otelfence.Config{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}
	kinds := sdk
	kinds.Kinds = true
	return map[string]otelfence.Config{"no-op": {MeterProvider: noop.NewMeterProvider()}, "sdk": sdk, "kinds": kinds}
}

// One round makes the calls of a short Hold: acquired and released.
func BenchmarkHooks(b *testing.B) {
	for name, config := range configs() {
		b.Run(name, func(b *testing.B) {
			o, err := otelfence.Hooks(config)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				round(b.Context(), o)
			}
		})
	}
}

// The baseline is a Locker without hooks in memory, which has no other cost.
func BenchmarkHold(b *testing.B) {
	all := configs()
	all["without metrics"] = otelfence.Config{}
	for name, config := range all {
		b.Run(name, func(b *testing.B) {
			locker := &lock.Locker{Issuer: new(memtoken.Issuer), DangerouslyWithoutClaim: true}
			if name != "without metrics" {
				var err error
				locker.Hooks, err = otelfence.Hooks(config)
				require.NoError(b, err)
			}
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, locker.Hold(b.Context(), account, func(context.Context) error { return nil }))
			}
		})
	}
}

// With a sampled span around the Hold, two more spans are made.
func BenchmarkSpans(b *testing.B) {
	tracers := sdktrace.NewTracerProvider()
	o, err := otelfence.Hooks(otelfence.Config{MeterProvider: noop.NewMeterProvider(), TracerProvider: tracers})
	require.NoError(b, err)
	ctx, span := tracers.Tracer("bench").Start(b.Context(), "job")
	defer span.End()
	b.ReportAllocs()
	for b.Loop() {
		round(ctx, o)
	}
}

func round(ctx context.Context, o lock.Hooks) {
	o.Acquired(ctx, tok, time.Millisecond)
	o.Released(ctx, tok, time.Millisecond, nil)
}

var tok = token.Token{Resource: account, Number: 1, Holder: "a"}

// This test is not parallel: allocations of other tests would count.
func TestTheHooksOfAHoldAllocateNothing(t *testing.T) {
	for name, config := range configs() {
		o, err := otelfence.Hooks(config)
		require.NoError(t, err)
		round(t.Context(), o) // makes the labels of its kind
		require.Zero(t, testing.AllocsPerRun(100, func() { round(t.Context(), o) }), name)
	}
}
