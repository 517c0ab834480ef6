package otelfence_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/contrib/otelfence"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

const (
	account = "account/42"
	ttl     = time.Second
)

// bench is a Locker with an issuer in memory, and its metrics and spans.
type bench struct {
	*lock.Locker
	config otelfence.Config
	issuer *memtoken.Issuer
	reader *sdkmetric.ManualReader
	spans  *tracetest.InMemoryExporter
	tracer trace.Tracer
}

// inBubble runs f in a synctest bubble, so that all durations are exact.
func inBubble(t *testing.T, kinds bool, f func(t *testing.T, b *bench)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(t, newBench(t, kinds)) })
}

func newBench(t *testing.T, kinds bool) *bench {
	t.Helper()
	b := &bench{issuer: new(memtoken.Issuer), reader: sdkmetric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.spans))
	b.tracer = tracers.Tracer("test")
	b.config = otelfence.Config{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader)),
		TracerProvider: tracers,
		Kinds:          kinds,
	}
	hooks, err := otelfence.Hooks(b.config)
	require.NoError(t, err)
	b.Locker = &lock.Locker{Issuer: b.issuer, TTL: ttl, Hooks: hooks, DangerouslyWithoutClaim: true}
	return b
}

// point is one series: its attributes, its count and its sum.
type point struct {
	attributes string
	count      int64
	sum        float64
}

// points returns what was measured, by the name of the instrument.
func (b *bench) points(t *testing.T) map[string][]point {
	t.Helper()
	all := map[string][]point{}
	for _, m := range b.metrics(t) {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			require.True(t, data.IsMonotonic, m.Name)
			for _, p := range data.DataPoints {
				all[m.Name] = append(all[m.Name], point{attributes: text(p.Attributes), count: p.Value})
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				all[m.Name] = append(all[m.Name], point{text(p.Attributes), int64(p.Count), p.Sum})
			}
		default:
			require.Fail(t, "an instrument of another kind", m.Name)
		}
	}
	return all
}

func (b *bench) metrics(t *testing.T) []metricdata.Metrics {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, b.reader.Collect(context.Background(), &got))
	var all []metricdata.Metrics
	for _, scope := range got.ScopeMetrics {
		require.Equal(t, otelfence.Scope, scope.Scope.Name)
		all = append(all, scope.Metrics...)
	}
	return all
}

func text(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

func pause(d time.Duration) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return nil
	}
}

// cutOff is an issuer whose renewals and releases fail.
type cutOff struct{ token.Issuer }

var errUnreachable = fmt.Errorf("test: %w", token.ErrUnreachable)

func (cutOff) Renew(context.Context, token.Token, time.Duration) (time.Time, error) {
	return time.Time{}, errUnreachable
}
