package pgxpoint

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/point"
)

// Tracer is for [pgx.ConnConfig.Tracer], that of a pool's config too. To use it
// beside another, see package multitracer of pgx. It is a value without state,
// safe for concurrent use.
type Tracer struct{}

var (
	_ pgx.QueryTracer       = Tracer{}
	_ pgx.BatchTracer       = Tracer{}
	_ pgx.CopyFromTracer    = Tracer{}
	_ pgxpool.ReleaseTracer = Tracer{}
)

// TraceQueryStart implements [pgx.QueryTracer]: it may wait. It returns ctx.
func (Tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if t := traced(ctx, conn); t != nil {
		t.send(ctx, conn, data.SQL)
	}
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer]: it may wait.
func (Tracer) TraceQueryEnd(_ context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	if t := of(conn); t != nil {
		t.answer(data.CommandTag)
		t.settle(conn, data.Err)
	}
}

// TraceBatchStart implements [pgx.BatchTracer]: it may wait. It returns ctx.
func (Tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	t := traced(ctx, conn)
	if t == nil || data.Batch == nil {
		return ctx
	}
	texts := make([]string, 0, data.Batch.Len())
	for _, q := range data.Batch.QueuedQueries {
		texts = append(texts, q.SQL)
	}
	t.send(ctx, conn, texts...)
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (Tracer) TraceBatchQuery(_ context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	if t := of(conn); t != nil {
		t.answer(data.CommandTag)
	}
}

// TraceBatchEnd implements [pgx.BatchTracer]: it may wait.
func (Tracer) TraceBatchEnd(_ context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	if t := of(conn); t != nil {
		t.settle(conn, data.Err)
	}
}

// TraceCopyFromStart implements [pgx.CopyFromTracer]: it may wait. It returns
// ctx.
func (Tracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	if t := traced(ctx, conn); t != nil {
		t.send(ctx, conn, "copy")
	}
	return ctx
}

// TraceCopyFromEnd implements [pgx.CopyFromTracer]: it may wait.
func (Tracer) TraceCopyFromEnd(_ context.Context, conn *pgx.Conn, data pgx.TraceCopyFromEndData) {
	if t := of(conn); t != nil {
		t.answer(data.CommandTag)
		t.settle(conn, data.Err)
	}
}

// TraceRelease implements [pgxpool.ReleaseTracer]: the pool closes a connection
// that comes back inside a transaction.
func (Tracer) TraceRelease(_ *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	if t := of(data.Conn); t != nil {
		t.end(data.Conn, point.Undone)
	}
}
