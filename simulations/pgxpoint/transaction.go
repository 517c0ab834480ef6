package pgxpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/point"
)

// custom is where the transaction stands in its connection's CustomData, which
// only whoever uses the connection touches.
const custom = "fencepost.pgxpoint"

const idle = 'I' // pgconn's TxStatus outside of a transaction

// transaction is what is known of the one that is open on a connection, or that
// a statement outside of one is.
type transaction struct {
	ctx       context.Context // the last that listened: a rollback's own may not
	key       any             // nil before it has begun
	told      bool            // by the library, which began it
	wrote     bool            // the server has said so
	committed bool            // the server has said so
	sent      packet          // the last
	last      string          // the last answer to it
}

// of returns the connection's transaction, or nil.
func of(conn *pgx.Conn) *transaction {
	t, _ := conn.PgConn().CustomData()[custom].(*transaction)
	return t
}

// traced returns the transaction that something is about to be sent in, or nil
// where nobody listens.
func traced(ctx context.Context, conn *pgx.Conn) *transaction {
	t := of(conn)
	if conn.PgConn().IsBusy() || conn.IsClosed() && t == nil { // nothing will be sent
		return nil
	}
	if t != nil && conn.PgConn().TxStatus() == idle { // its end was not to be seen
		t.end(conn, t.unseen())
		t = nil
	}
	if !point.Listening(ctx) {
		return t
	}
	if t == nil {
		t = &transaction{}
	}
	t.ctx = ctx
	return t
}

// send tells what the texts are about to do. All that has to be known of them
// is remembered before anybody is told, who may never return.
func (t *transaction) send(ctx context.Context, conn *pgx.Conn, texts ...string) {
	p := pack(conn, texts)
	if p.empty {
		return
	}
	t.sent, t.last = p, ""
	library := point.Key(ctx)
	step := p.step
	if t.key == nil {
		step = point.Begin
		t.begin(conn, library)
	}
	if step != "" && library == nil && (!t.told || step == point.Statement) {
		point.At(t.ctx, step, t.key)
	}
}

// begin makes the key known to the guard that joins the transaction.
func (t *transaction) begin(conn *pgx.Conn, library any) {
	t.key, t.told = t, library != nil
	if t.told {
		t.key = library
	}
	data := conn.PgConn().CustomData()
	data[custom], data[point.Custom] = t, t.key
}

func (t *transaction) end(conn *pgx.Conn, step point.Step) {
	data := conn.PgConn().CustomData()
	delete(data, custom)
	delete(data, point.Custom)
	if !t.told {
		point.At(t.ctx, step, t.key)
	}
}
