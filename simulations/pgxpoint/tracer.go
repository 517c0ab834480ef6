package pgxpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/sqltext"
)

// Tracer is for [pgx.ConnConfig.Tracer], also in the configuration of a pool. To combine
// it with another tracer, use pgx's package multitracer. The zero value is ready to use
// and safe for concurrent use.
type Tracer struct{}

var (
	_ pgx.QueryTracer       = Tracer{}
	_ pgx.BatchTracer       = Tracer{}
	_ pgx.CopyFromTracer    = Tracer{}
	_ pgx.PrepareTracer     = Tracer{}
	_ pgxpool.ReleaseTracer = Tracer{}
)

// TraceQueryStart implements [pgx.QueryTracer]. It may block. It returns ctx.
func (Tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	start(ctx, conn, false, data.SQL)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer]. It may block.
func (Tracer) TraceQueryEnd(_ context.Context, conn *pgx.Conn, data pgx.TraceQueryEndData) {
	if t := transactionOf(conn); t != nil {
		t.addTag(data.CommandTag, t.sent.writesInWith)
		t.finish(conn, data.Err)
	}
}

// TraceBatchStart implements [pgx.BatchTracer]. It may block. It returns ctx.
func (Tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if data.Batch == nil {
		return ctx
	}
	texts := make([]string, 0, data.Batch.Len())
	for _, q := range data.Batch.QueuedQueries {
		texts = append(texts, q.SQL)
	}
	start(ctx, conn, true, texts...)
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (Tracer) TraceBatchQuery(_ context.Context, conn *pgx.Conn, data pgx.TraceBatchQueryData) {
	if t := transactionOf(conn); t != nil {
		t.addTag(data.CommandTag, sqltext.WritesInWith(data.SQL))
	}
}

// TraceBatchEnd implements [pgx.BatchTracer]. It may block.
func (Tracer) TraceBatchEnd(_ context.Context, conn *pgx.Conn, data pgx.TraceBatchEndData) {
	if t := transactionOf(conn); t != nil {
		t.finish(conn, data.Err)
	}
}

// TraceCopyFromStart implements [pgx.CopyFromTracer]. It may block. It returns ctx.
func (Tracer) TraceCopyFromStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	start(ctx, conn, false, "copy")
	return ctx
}

// TraceCopyFromEnd implements [pgx.CopyFromTracer]. It may block.
func (Tracer) TraceCopyFromEnd(_ context.Context, conn *pgx.Conn, data pgx.TraceCopyFromEndData) {
	if t := transactionOf(conn); t != nil {
		t.addTag(data.CommandTag, false)
		t.finish(conn, data.Err)
	}
}

// TraceRelease implements [pgxpool.ReleaseTracer]. The pool closes a connection that is
// released inside a transaction.
func (Tracer) TraceRelease(_ *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	if t := transactionOf(data.Conn); t != nil {
		t.end(data.Conn, failpoint.Undone)
	}
}

// customDataKey is the key of the transaction in its connection's CustomData, which only
// the connection's user accesses.
const customDataKey = "fencepost.pgxpoint"

const idle = 'I' // pgconn's TxStatus outside of a transaction

// transaction is the open transaction of a connection, or a statement outside of one.
type transaction struct {
	ctx        context.Context // the last one with a listener: a rollback's own may have none
	key        any             // nil before it has begun
	byGuard    bool            // a guard has begun it, and reports its steps
	wrote      bool            // the server has reported a write
	committed  bool            // the server has reported its commit
	sent       request         // the last request
	last       string          // the last reply to it
	rolledBack bool            // the request rolls back to a savepoint
	dropped    *droppedReply   // the reply that will not be read
	dropNext   bool            // drop the reply to the statement that follows the PREPARE
}

// Traced marks the transaction as a tracer's. A simulation treats every other key as a
// guard's.
func (*transaction) Traced() {}

// transactionOf returns the connection's transaction, or nil.
func transactionOf(conn *pgx.Conn) *transaction {
	t, _ := conn.PgConn().CustomData()[customDataKey].(*transaction)
	return t
}

// traced returns the transaction that the next request belongs to, or nil if there is no
// listener.
func traced(ctx context.Context, conn *pgx.Conn) *transaction {
	t := transactionOf(conn)
	if conn.PgConn().IsBusy() || conn.IsClosed() && t == nil { // nothing will be sent
		return nil
	}
	if t != nil && conn.PgConn().TxStatus() == idle { // its end was not observed
		t.end(conn, t.unseenOutcome())
		t = nil
	}
	if !failpoint.Listening(ctx) {
		return t
	}
	if t == nil {
		t = &transaction{}
	}
	t.ctx = ctx
	return t
}

// start reports what a request will do, or the writes that no listener receives.
func start(ctx context.Context, conn *pgx.Conn, batch bool, texts ...string) {
	if t := traced(ctx, conn); t != nil {
		t.send(ctx, conn, batch, texts)
		return
	}
	for _, text := range texts {
		if failpoint.IsUnheard(ctx) && sqltext.Writes(text) {
			failpoint.NoteUnheard(failpoint.Unheard{Source: sourceOf(conn), SQL: text})
		}
	}
}

// source is a database, as a simulation distinguishes them.
type source string

const sourceKey = "fencepost.pgxpoint.source"

// sourceOf returns the database of conn: its server and the schema that it uses.
func sourceOf(conn *pgx.Conn) source {
	data := conn.PgConn().CustomData()
	known, ok := data[sourceKey].(source)
	if !ok {
		c := conn.Config()
		known = source(fmt.Sprint(c.Host, " ", c.Port, " ", c.Database, " ", c.RuntimeParams["search_path"]))
		data[sourceKey] = known
	}
	return known
}

// send reports what the texts will do. It stores the state before it calls the listener,
// which may never return.
func (t *transaction) send(ctx context.Context, conn *pgx.Conn, batch bool, texts []string) {
	r := newRequest(conn, texts)
	r.batch = batch
	if r.empty {
		return
	}
	t.sent, t.last = r, ""
	t.rolledBack = slices.ContainsFunc(texts, sqltext.RollsBackTo)
	guardKey := failpoint.Key(ctx)
	step := r.step
	if t.key == nil {
		step = failpoint.Begin
		if conn.PgConn().TxStatus() != idle {
			guardKey = nil // a guard joins what the caller has begun under another context
		}
		t.begin(conn, guardKey)
	}
	if step != "" && guardKey == nil && (!t.byGuard || step == failpoint.Statement) {
		failpoint.At(t.ctx, step, t.key)
	}
	if guardKey != nil && !t.byGuard {
		failpoint.Note(t.ctx, failpoint.Joined{Key: t.key})
	}
	for _, text := range texts {
		failpoint.Note(t.ctx, failpoint.Sent{Driver: "pgx", Source: sourceOf(conn), Key: t.key, SQL: text})
	}
	if r.canDropReply(conn, t) && guardKey == nil && !t.byGuard && failpoint.DropsReply(t.ctx, t.key) {
		t.dropped = dropReply(ctx, conn)
	}
}

// begin passes the key to the guard that joins the transaction.
func (t *transaction) begin(conn *pgx.Conn, guardKey any) {
	t.key, t.byGuard = t, guardKey != nil
	if t.byGuard {
		t.key = guardKey
	}
	data := conn.PgConn().CustomData()
	data[customDataKey], data[failpoint.CustomDataKey] = t, t.key
}

func (t *transaction) end(conn *pgx.Conn, step failpoint.Step) {
	data := conn.PgConn().CustomData()
	delete(data, customDataKey)
	delete(data, failpoint.CustomDataKey)
	if !t.byGuard {
		failpoint.At(t.ctx, step, t.key)
	}
}

// request is what was sent at once: a statement, or a batch.
type request struct {
	empty      bool           // nothing but comments
	step       failpoint.Step // its step inside a transaction; empty if it ends the transaction, or for savepoints
	commits    bool           // it has a COMMIT, or there is no transaction
	writes     bool           // according to its first words
	connClosed bool           // the connection had been closed before
	batch      bool           // it is a pgx.Batch
	copies     bool           // it is a COPY
	// writesInWith means that it writes in a WITH, which its command tag may not show
	writesInWith bool
}

func newRequest(conn *pgx.Conn, texts []string) request {
	r := request{
		empty: true, commits: conn.PgConn().TxStatus() == idle, connClosed: conn.IsClosed(),
	}
	for _, text := range texts {
		switch sqltext.Verb(text) {
		case "":
			continue
		case "COMMIT":
			r.commits, r.step = true, failpoint.Commit
		case "ROLLBACK", "SAVEPOINT", "RELEASE":
		default:
			if r.step == "" {
				r.step = failpoint.Statement
			}
		}
		r.empty = false
		r.copies = r.copies || sqltext.Verb(text) == "COPY"
		r.writes = r.writes || !sqltext.Reads(text)
		r.writesInWith = r.writesInWith || sqltext.WritesInWith(text)
	}
	return r
}

// addTag is called with each command tag, before the error that comes with it. The server
// sends a tag for a statement that has run. If the transaction is rolled back later, the
// write does not count. The tag of a WITH is that of its last part: if that is a SELECT,
// it does not show the writes of the others.
func (t *transaction) addTag(tag pgconn.CommandTag, writesInWith bool) {
	if t.last = tag.String(); t.last == "COMMIT" {
		t.committed = true
	}
	t.wrote = t.wrote || sqltext.Wrote(t.last) || writesInWith && strings.HasPrefix(t.last, "SELECT")
}

// finish is called with the error of the request, or nil after its last reply.
func (t *transaction) finish(conn *pgx.Conn, err error) {
	pg, closed := conn.PgConn(), conn.IsClosed()
	if t.rolledBack && err == nil {
		t.rolledBack = false
		failpoint.Note(t.ctx, failpoint.RolledBack{Key: t.key})
	}
	switch {
	case t.dropped != nil && closed:
		awaitEnd(t.ctx, conn)
	case t.dropped != nil && t.dropped.undo(): // nothing was sent: the context had ended
		t.dropped = nil
	}
	if closed || pg.TxStatus() == idle && !pg.IsBusy() {
		t.end(conn, t.outcome(closed, err))
	}
}

func (t *transaction) outcome(closed bool, err error) failpoint.Step {
	var refused *pgconn.PgError
	switch {
	case t.committed:
		return t.written()
	case t.last == "ROLLBACK":
		return failpoint.Undone
	case closed:
		return t.brokenOutcome(err)
	case errors.As(err, &refused), err != nil && t.last == "":
		return failpoint.Undone // by the server, or because nothing was sent
	}
	return t.written() // an error then is the reader's own
}

// brokenOutcome returns the outcome if the connection is closed. In the simple protocol
// pgx 5.12 returns "conn closed", marked as safe to retry, for a connection that broke
// while pgx waited for the reply.
func (t *transaction) brokenOutcome(err error) failpoint.Step {
	unsent := pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
	if !t.sent.commits || t.sent.connClosed || unsent {
		return failpoint.Undone
	}
	return t.unseenOutcome()
}

// unseenOutcome returns the outcome of a COMMIT, or of a statement outside of a
// transaction, without a reply.
func (t *transaction) unseenOutcome() failpoint.Step {
	if t.wrote || t.sent.writes {
		return failpoint.Unknown
	}
	return failpoint.Undone
}

func (t *transaction) written() failpoint.Step {
	if t.wrote {
		return failpoint.Applied
	}
	return failpoint.Undone
}
