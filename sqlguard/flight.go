package sqlguard

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// flight is a packet that was sent and whose answers are being read.
type flight struct {
	call     *call
	caller   context.Context
	batch    *pgx.Batch
	results  pgx.BatchResults
	tx       pgx.Tx        // nil inside the caller's transaction, and where bare
	conn     *pgx.Conn     // nil where there was none to be had
	borrowed *pgxpool.Conn // where bare, of a pool
	sent     time.Time
	begun    bool // something was answered
	commits  bool
	bare     bool // without BEGIN and COMMIT
	ending   bool // and the commit's answer is all that is missing
	wrote    bool // more than marks
	land     context.CancelFunc
}

// fail gives everything back and returns err with its outcome.
func (f *flight) fail(err error) error {
	unknown := f.drop(err)
	if unknown && !hasOutcome(err) {
		err = &verdict{guard.ErrUnknown, err}
	}
	return guard.WithLoss(f.caller, nothingApplied(err))
}

// drop gives everything back and reports whether err leaves the outcome open.
func (f *flight) drop(err error) (unknown bool) {
	if harmless(sqlState(err)) {
		// pgx would have every statement of the batch prepared again, at the
		// price of two packets: a zombie that tries again and again pays it
		// each time, and the server with it.
		f.batch.QueuedQueries = nil
	}
	if f.results != nil {
		_ = f.results.Close() // it follows from err
	}
	if f.conn != nil && errors.Is(err, errPanicked) && f.conn.PgConn().IsBusy() {
		// pgx was putting the packet together, and will not let go of it. The
		// pool throws such a connection away, but would say goodbye first.
		_ = f.conn.PgConn().Conn().Close()
	}
	unknown = f.unknown(err)
	f.release()
	if unknown {
		f.call.at(f.caller, point.Unknown)
	} else {
		f.call.at(f.caller, point.Undone)
	}
	return unknown
}

func (f *flight) unknown(err error) bool {
	if !f.commits || f.conn == nil || errors.As(err, new(pgx.ErrPreprocessingBatch)) {
		return false
	}
	if !severed(err) && !(f.ending && interrupted(err)) {
		return false
	}
	// Before anything was answered, an error on a connection that is still good
	// is pgx's own: an argument that cannot be encoded, say.
	return f.begun || f.conn.IsClosed()
}

func (f *flight) release() {
	if f.tx != nil {
		rollback(f.caller, f.tx)
	}
	if f.borrowed != nil {
		f.borrowed.Release()
	}
	f.land()
}

// harmless reports whether an SQLSTATE says nothing against the prepared
// statements: refusals, concurrency, constraints.
func harmless(code string) bool {
	return strings.HasPrefix(code, "ZF") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "40") || code == codeLockTimeout
}
