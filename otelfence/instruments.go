package otelfence

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
)

// Boundaries, in seconds: a wait is as short as one round trip, and a hold as
// long as a job.
var (
	waits = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	holds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
)

// instruments are those of package token.
type instruments struct {
	wait, hold                                  metric.Float64Histogram
	acquired, gaveUp, renewed, endangered, lost metric.Int64Counter
	released, refused, collided, healed         metric.Int64Counter
}

// maker makes instruments, and keeps what went wrong.
type maker struct {
	meter metric.Meter
	errs  []error
}

func newInstruments(meter metric.Meter) (*instruments, error) {
	m := &maker{meter: meter}
	return &instruments{
		wait:       m.histogram("wait", waits, "How long callers waited for a resource."),
		hold:       m.histogram("hold", holds, "How long leases were held."),
		acquired:   m.counter("lock.acquired", "{acquisition}", "Tokens that were granted."),
		gaveUp:     m.counter("lock.gave_up", "{acquisition}", "Acquisitions that ended without a token."),
		renewed:    m.counter("lock.renewed", "{renewal}", "Renewals of leases."),
		endangered: m.counter("lock.endangered", "{renewal}", "Renewals that failed while the lease still lived."),
		lost:       m.counter("lock.lost", "{lease}", "Leases that ended without being released."),
		released:   m.counter("lock.released", "{lease}", "Leases that were released."),
		refused:    m.counter("lock.refused", "{token}", "Tokens of leases that a guard refused as stale."),
		collided:   m.counter("lock.collided", "{token}", "Tokens whose number a guard had seen from another holder."),
		healed:     m.counter("lock.healed", "{issuer}", "Times an issuer that had forgotten its numbers was raised."),
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
