package otelfence

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencepost/fencepost/token"
)

// hindsight makes a span of what took so long and is over now, where the span
// that ctx carries is sampled.
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

// alive is ctx, or where that has ended what it carries: an SDK may pass over
// what is measured under a context that has ended (that of 1.20 does), and the
// context of a lease has when it is lost or released.
func alive(ctx context.Context) context.Context {
	if ctx.Err() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

func sampled(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsSampled() }

// event tells the span that ctx carries, if it is still going on.
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

// describe leaves out what is not known.
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
