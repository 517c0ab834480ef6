package otelfence

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the meter and of the tracer.
const Scope = "github.com/fencepost/fencepost/otelfence"

// Config says where metrics and spans go. The zero Config is ready: it uses the
// global providers, which do nothing until the program sets them.
type Config struct {
	// MeterProvider gets the metrics. Nil means [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider
	// TracerProvider gets the spans. Nil means [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
	// Kinds gives every metric of package token the attribute fencepost.kind:
	// what stands before the first slash of the resource ("account" of
	// "account/42"), and "none" where there is no slash. Each kind multiplies
	// the series; leave it out where names begin with an id.
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
