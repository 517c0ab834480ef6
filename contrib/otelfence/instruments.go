package otelfence

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the meter and of the tracer.
const Scope = "github.com/fencepost/fencepost/contrib/otelfence"

// Config is the destination of metrics and spans. The zero Config is ready for use: it
// uses the global providers, which do nothing until the program sets them.
type Config struct {
	// MeterProvider gets the metrics. Nil means [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider
	// TracerProvider gets the spans. Nil means [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
	// Kinds gives every metric of package lock the attribute fencepost.kind: the part of
	// the resource before the first slash ("account" of "account/42"), or "none" if there
	// is no slash. Each kind multiplies the series: do not set it if resources begin with
	// an id. The zero value is false: no such attribute.
	Kinds bool
}

func (c Config) meter() metric.Meter {
	if c.MeterProvider == nil {
		return otel.GetMeterProvider().Meter(Scope)
	}
	return c.MeterProvider.Meter(Scope)
}

func (c Config) tracer() trace.Tracer {
	if c.TracerProvider == nil {
		return otel.GetTracerProvider().Tracer(Scope)
	}
	return c.TracerProvider.Tracer(Scope)
}

// Boundaries in seconds: a wait can be as short as one round trip, and a hold as long as
// a job.
var (
	waits = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	holds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
)

// instruments are the instruments of package lock.
type instruments struct {
	wait, hold                                        metric.Float64Histogram
	acquired, notAcquired, renewed, renewFailed, lost metric.Int64Counter
	released, refused, collided, recovered            metric.Int64Counter
}

// maker makes instruments and collects their errors.
type maker struct {
	meter metric.Meter
	errs  []error
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := &maker{meter: meter}
	return &instruments{
		wait:        m.histogram("wait", waits, "How long callers waited for a resource."),
		hold:        m.histogram("hold", holds, "How long leases were held."),
		acquired:    m.counter("lock.acquired", "{acquisition}", "Tokens that were granted."),
		notAcquired: m.counter("lock.not_acquired", "{acquisition}", "Acquisitions that ended without a token."),
		renewed:     m.counter("lock.renewed", "{renewal}", "Renewals of leases."),
		renewFailed: m.counter("lock.renew_failed", "{renewal}", "Renewals that failed while the lease still lived."),
		lost:        m.counter("lock.lost", "{lease}", "Leases that ended without being released."),
		released:    m.counter("lock.released", "{lease}", "Leases that were released."),
		refused:     m.counter("lock.refused", "{token}", "Tokens of leases that a guard refused as stale."),
		collided:    m.counter("lock.collided", "{token}", "Tokens whose number a guard had seen from another holder."),
		recovered:   m.counter("lock.recovered", "{issuer}", "Times an issuer that had forgotten its numbers was raised."),
	}, m.err()
}

func (m *maker) histogram(name string, bounds []float64, about string) metric.Float64Histogram {
	made, err := m.meter.Float64Histogram("fencepost.lock."+name,
		metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
	m.errs = append(m.errs, err)
	return made
}

func (m *maker) counter(name, unit, about string) metric.Int64Counter {
	made, err := m.meter.Int64Counter("fencepost."+name, metric.WithUnit(unit), metric.WithDescription(about))
	m.errs = append(m.errs, err)
	return made
}

func (m *maker) err() error {
	if err := errors.Join(m.errs...); err != nil {
		return fmt.Errorf("otelfence: %w", err)
	}
	return nil
}
