package pgxpoint

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// droppedReply is a reply that is not read. Reads of the connection block until the reply
// has arrived. Otherwise pgx, whose read fails, would have the server cancel the
// statement while it runs.
type droppedReply struct {
	conn net.Conn
	done chan struct{}
}

var past = time.Unix(1, 0)

// dropReply makes the connection fail after the next request, before its reply is read.
// pgx then closes the connection.
//
// pgx may leave a read in the background after a slow write. That read blocks until the
// next reply arrives, or has not begun yet, and dropReply would wait for the reply to a
// later statement. SyncConn ends it first.
func dropReply(ctx context.Context, conn *pgx.Conn) *droppedReply {
	l := &droppedReply{conn.PgConn().Conn(), make(chan struct{})}
	raw, ok := rawConn(l.conn)
	if !ok || conn.PgConn().SyncConn(ctx) != nil {
		close(l.done)
		_ = l.conn.SetReadDeadline(past)
		return l
	}
	locked := make(chan struct{})
	unlocked := sync.OnceFunc(func() { close(locked) })
	go func() {
		defer close(l.done)
		defer unlocked()
		_ = raw.Read(func(uintptr) bool {
			select {
			case <-locked: // again: there is data to read
				_ = l.conn.SetReadDeadline(past)
				return true
			default:
				unlocked()
				return false
			}
		})
	}()
	<-locked
	return l
}

// undo undoes dropReply, so that the next reply is read. It returns false if that fails.
func (l *droppedReply) undo() bool {
	failed := l.conn.SetReadDeadline(past)
	<-l.done
	return errors.Join(failed, l.conn.SetReadDeadline(time.Time{})) == nil
}

// rawConn returns the operating system's connection below conn, if it is accessible.
func rawConn(conn net.Conn) (syscall.RawConn, bool) {
	for {
		switch c := conn.(type) {
		case syscall.Conn:
			raw, err := c.SyscallConn()
			return raw, err == nil
		case interface{ NetConn() net.Conn }: // as in crypto/tls
			conn = c.NetConn()
		default:
			return nil, false
		}
	}
}

// canDropReply reports whether r commits a write of t, so that its reply can be dropped.
func (r request) canDropReply(conn *pgx.Conn, t *transaction) bool {
	return r.commits && !r.connClosed && (t.wrote || r.writes) && !r.readsEarly(conn)
}

// readsEarly reports whether pgx reads a reply before it has sent all of r: the reply to
// the start of a COPY, or to the statements of a batch that it prepares. If that reply is
// dropped, the write is not sent.
func (r request) readsEarly(conn *pgx.Conn) bool {
	mode := conn.Config().DefaultQueryExecMode
	return r.copies || r.batch && mode != pgx.QueryExecModeExec && mode != pgx.QueryExecModeSimpleProtocol
}

// TracePrepareStart implements [pgx.PrepareTracer]. A PREPARE before a statement whose
// reply is to be dropped gets its reply. It returns ctx.
func (Tracer) TracePrepareStart(ctx context.Context, conn *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	if t := transactionOf(conn); t != nil && t.dropped != nil && t.dropped.undo() {
		t.dropped, t.dropNext = nil, true
	}
	return ctx
}

// TracePrepareEnd implements [pgx.PrepareTracer].
func (Tracer) TracePrepareEnd(ctx context.Context, conn *pgx.Conn, data pgx.TracePrepareEndData) {
	if t := transactionOf(conn); t != nil && t.dropNext && data.Err == nil {
		t.dropped, t.dropNext = dropReply(ctx, conn), false
	}
}

// endTimeout limits the wait for a server that does not reply.
const endTimeout = 30 * time.Second

// awaitEnd returns when the server has ended the session of conn, which is closed. From
// then on the last request is either committed or will never be.
func awaitEnd(ctx context.Context, conn *pgx.Conn) {
	pid := [][]byte{[]byte(strconv.FormatUint(uint64(conn.PgConn().PID()), 10))}
	select {
	case <-conn.PgConn().CleanupDone():
	case <-time.After(endTimeout):
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	other, err := pgconn.ConnectConfig(ctx, &conn.Config().Config)
	if err != nil {
		return
	}
	defer other.Close(ctx)
	for ctx.Err() == nil {
		found := other.ExecParams(ctx, "SELECT 1 FROM pg_stat_activity WHERE pid = $1::int", pid, nil, nil, nil).Read()
		if found.Err != nil || len(found.Rows) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
