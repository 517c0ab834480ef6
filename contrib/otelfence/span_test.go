package otelfence_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// span returns the one span of that name.
func (b *bench) span(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	synctest.Wait()
	var found []tracetest.SpanStub
	for _, s := range b.spans.GetSpans() {
		if s.Name == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

func pairs(attributes []attribute.KeyValue) []string {
	var all []string
	for _, kv := range attributes {
		all = append(all, string(kv.Key)+"="+fmt.Sprint(kv.Value.AsInterface()))
	}
	return all
}

func took(s tracetest.SpanStub) time.Duration { return s.EndTime.Sub(s.StartTime) }

func TestWaitAndHoldAreSpansBelowTheCallers(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		go func() { _ = b.Hold(t.Context(), account, pause(2*time.Second)) }()
		synctest.Wait()
		ctx, caller := b.tracer.Start(t.Context(), "job")
		var tok token.Token
		require.NoError(t, b.Hold(ctx, account, func(ctx context.Context) (err error) {
			time.Sleep(time.Second)
			tok, err = token.FromContext(ctx, account)
			return err
		}))
		caller.End()
		wait, hold := b.span(t, "fencepost.lock.wait"), b.span(t, "fencepost.lock.hold")
		require.Equal(t, 2*time.Second, took(wait))
		require.Equal(t, time.Second, took(hold))
		require.Equal(t, wait.EndTime, hold.StartTime)
		for _, s := range []tracetest.SpanStub{wait, hold} {
			require.Equal(t, caller.SpanContext().SpanID(), s.Parent.SpanID())
			require.Equal(t, codes.Unset, s.Status.Code)
			require.Contains(t, pairs(s.Attributes), "fencepost.resource=account/42")
			require.Contains(t, pairs(s.Attributes), "fencepost.holder="+tok.Holder)
		}
		require.Len(t, b.spans.GetSpans(), 3, "the first Hold had no parent span")
	})
}

func TestALossIsASpanInErrorAndItsWarningsAreEvents(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		b.Issuer = cutOff{b.issuer}
		ctx, caller := b.tracer.Start(t.Context(), "job")
		_ = b.Hold(ctx, account, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
		caller.End()
		hold := b.span(t, "fencepost.lock.hold")
		require.Equal(t, codes.Error, hold.Status.Code)
		require.Contains(t, hold.Status.Description, "token: lease on "+account)
		require.Equal(t, 900*time.Millisecond, took(hold))
		events := b.span(t, "job").Events
		require.Greater(t, len(events), 1)
		require.Equal(t, "fencepost.lock.renew_failed", events[0].Name)
		require.Contains(t, pairs(events[0].Attributes), "error.message="+errUnreachable.Error())
	})
}

func TestAFailedWaitIsASpanInError(t *testing.T) {
	inBubble(t, false, func(t *testing.T, b *bench) {
		holder, err := b.Acquire(t.Context(), account)
		require.NoError(t, err)
		b.WaitTimeout = 3 * time.Second
		ctx, caller := b.tracer.Start(t.Context(), "job")
		require.ErrorIs(t, b.Hold(ctx, account, pause(0)), lock.ErrWaitTimeout)
		caller.End()
		require.NoError(t, holder.Release(t.Context()))
		wait := b.span(t, "fencepost.lock.wait")
		require.Equal(t, codes.Error, wait.Status.Code)
		require.Equal(t, 3*time.Second, took(wait))
		require.Equal(t, []string{"fencepost.resource=account/42"}, pairs(wait.Attributes))
	})
}
