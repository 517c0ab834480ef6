package otelfence

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/token"
)

// hindsight makes a span for something that has just ended and took that long, as a child
// of the span that ctx carries.
func hindsight(
	ctx context.Context, t trace.Tracer, name string, took time.Duration, err error, about []attribute.KeyValue,
) {
	now := time.Now()
	_, span := t.Start(ctx, name, trace.WithTimestamp(now.Add(-took)), trace.WithAttributes(about...))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(trace.WithTimestamp(now))
}

// alive returns a context with the values of ctx that has not ended. The context of a
// lease has ended when the lease is lost or released, and an SDK may ignore measurements
// under such a context (version 1.20 does).
func alive(ctx context.Context) context.Context {
	if ctx.Err() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

func sampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// event adds an event to the span that ctx carries, if it is still recording.
func event(ctx context.Context, name string, tok token.Token, err error) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	about := describe(tok)
	if err != nil {
		about = append(about, errorKey.String(err.Error()))
	}
	span.AddEvent(name, trace.WithAttributes(about...))
}

// describe returns the known attributes of tok.
func describe(tok token.Token) []attribute.KeyValue {
	about := make([]attribute.KeyValue, 0, 4)
	if tok.Resource != "" {
		about = append(about, resourceKey.String(tok.Resource))
	}
	if tok.Number != 0 {
		about = append(about, numberKey.Int64(tok.Number), holderKey.String(tok.Holder))
	}
	return about
}
