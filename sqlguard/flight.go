package sqlguard

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// flight is a packet that was sent and whose answers are being read.
type flight struct {
	call    *call
	caller  context.Context
	batch   *pgx.Batch
	results pgx.BatchResults
	tx      pgx.Tx    // nil inside the caller's transaction
	conn    *pgx.Conn // nil where nothing was sent
	sent    time.Time
	begun   bool
	commits bool
	wrote   bool // more than marks
	land    context.CancelFunc
}

// end reads the answer to the COMMIT, after the body's have been read, and
// gives the connection back. Only the answer to the COMMIT proves a write: a
// deferred constraint, say, fails there. err is the body's, nil for none.
func (f *flight) end(err error) error {
	if err != nil {
		return f.fail(err)
	}
	var tag pgconn.CommandTag
	if f.commits {
		if tag, err = f.results.Exec(); err != nil {
			return f.fail(err)
		}
	}
	if tag.String() == "ROLLBACK" {
		return f.fail(pgx.ErrTxCommitRollback)
	}
	// What happens to the connection behind a COMMIT changes nothing any more.
	if err = f.results.Close(); err != nil && tag.String() != "COMMIT" {
		return f.fail(err)
	}
	f.release()
	if f.wrote {
		f.call.at(f.caller, point.Applied)
	} else {
		f.call.at(f.caller, point.Undone)
	}
	return nil
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
	_ = f.results.Close() // it follows from err
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
	if !f.commits || f.conn == nil || errors.As(err, new(pgx.ErrPreprocessingBatch)) || !severed(err) {
		return false
	}
	// Before the BEGIN was answered, an error on a connection that is still
	// good is pgx's own: an argument that cannot be encoded, say.
	return f.begun || f.conn.IsClosed()
}

func (f *flight) release() {
	if f.tx != nil {
		rollback(f.caller, f.tx)
	}
	f.land()
}

// harmless reports whether an SQLSTATE says nothing against the prepared
// statements: refusals, concurrency, constraints.
func harmless(code string) bool {
	return strings.HasPrefix(code, "ZF") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "40") || code == codeLockTimeout
}
