package pgwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
)

// slow is the age of a transaction from which on its session is pinged before COMMIT: it
// may have been ended for being idle or for blocking a successor.
const slow = 100 * time.Millisecond

// commit ends the transaction of an Update after fn has returned nil. If the caller's ctx
// has ended, COMMIT is not sent and nothing is applied. If ctx ends later, COMMIT is not
// cut off. The loss of the lease has no effect.
func (c *Call) commit(ctx context.Context, tx pgx.Tx, begun time.Time) error {
	conn := tx.Conn()
	if err := c.dropCommit(ctx, conn); err != nil {
		return &OutcomeError{guard.ErrUnknown, err}
	}
	if err := writectx.CheckCommit(ctx); err != nil {
		return fmt.Errorf("sqlguard: commit was not sent: %w", err)
	}
	caller := ctx
	ctx, cancel := writectx.ForCommit(ctx)
	defer cancel()
	if !c.InTx() && time.Since(begun) > slow && !conn.IsClosed() {
		if err := conn.Ping(ctx); err != nil {
			return NothingApplied(fmt.Errorf("sqlguard: commit was not sent: %w", err))
		}
	}
	sent := !conn.IsClosed()
	err := pgx.ErrTxClosed
	if !sent || c.InTx() || conn.PgConn().TxStatus() != 'I' { // otherwise fn has sent a COMMIT or ROLLBACK, and our COMMIT would succeed without effect
		err = tx.Commit(ctx)
	}
	switch {
	case err == nil:
		if err = c.dropReply(caller, conn); err != nil {
			err = &OutcomeError{guard.ErrUnknown, err}
		}
		return err
	case errors.Is(err, pgx.ErrTxClosed):
		return &OutcomeError{guard.ErrUnknown, fmt.Errorf("sqlguard: fn ended the transaction: %w", err)}
	case sent && !c.InTx() && ambiguous(err):
		return &OutcomeError{guard.ErrUnknown, err}
	}
	return NothingApplied(fmt.Errorf("sqlguard: commit: %w", err))
}

// Exec reads the reply to the last statement of the body and calls [Sent.Finish]. It
// returns how many rows the statement has written.
func (s *Sent) Exec() (int64, error) {
	tag, err := s.Results.Exec()
	s.Wrote(tag)
	if err = s.Finish(err); err != nil {
		return 0, err
	}
	return tag.RowsAffected(), nil
}

// Query reads the reply to the body, up to its rows.
func (s *Sent) Query() (pgx.Rows, error) {
	rows, err := s.Results.Query()
	if err != nil {
		return nil, s.Finish(err)
	}
	s.begun = true
	return rows, nil
}

// Finish reads the reply to the COMMIT, after the replies to the body have been read, and
// gives the connection back. Only the reply to the COMMIT proves a write: a deferred
// constraint, for example, fails there. err is the body's error, or nil.
func (s *Sent) Finish(err error) error {
	switch {
	case err != nil:
	case s.implicit:
		err = s.awaitReady()
	default:
		err = s.readCommit()
	}
	if err == nil && s.wrote {
		err = s.call.dropReply(s.caller, s.conn)
	}
	if err != nil {
		return s.fail(err)
	}
	s.release()
	if s.wrote {
		s.call.at(s.caller, stepApplied)
	} else {
		s.call.at(s.caller, stepUndone)
	}
	return nil
}

func (s *Sent) readCommit() error {
	var tag pgconn.CommandTag
	if s.commits {
		var err error
		if tag, err = s.Results.Exec(); err != nil {
			return err
		}
	}
	if tag.String() == "ROLLBACK" {
		return pgx.ErrTxCommitRollback
	}
	// An error of the connection after the reply to the COMMIT has no effect on the outcome.
	if err := s.Results.Close(); err != nil && tag.String() != "COMMIT" {
		return err
	}
	return nil
}

// awaitReady waits until the server is ready and in no transaction. Then the implicit
// transaction is committed.
func (s *Sent) awaitReady() error {
	s.ending = true
	s.batch.QueuedQueries = nil // an error at commit is no reason to prepare the statements again
	if err := s.Results.Close(); err != nil {
		return err
	}
	if s.conn.PgConn().TxStatus() != 'I' {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// ErrPanicked is the error of a request during which a callback or hook panicked.
var ErrPanicked = errors.New("sqlguard: a callback or hook panicked")

// CommitFollows reports whether a COMMIT was sent after the body.
func (s *Sent) CommitFollows() bool { return s.commits }

// fail rolls back, gives the connection back, and returns err with its outcome.
func (s *Sent) fail(err error) error {
	unknown := s.Discard(err)
	if unknown && !hasOutcome(err) {
		err = &OutcomeError{guard.ErrUnknown, err}
	}
	return guard.WithCause(s.caller, NothingApplied(err))
}

// Discard rolls back and gives the connection back. It reports whether err leaves the
// outcome unknown.
func (s *Sent) Discard(err error) (unknown bool) {
	if harmless(SQLState(err)) {
		// For other errors pgx prepares every statement of the batch again, in two more
		// round trips. A stale writer that retries would cost the server that much each
		// time.
		s.batch.QueuedQueries = nil
	}
	if s.Results != nil {
		_ = s.Results.Close() // a consequence of err
	}
	if s.conn != nil && errors.Is(err, ErrPanicked) && s.conn.PgConn().IsBusy() {
		// pgx was building the batch and marks the connection busy. The pool closes such
		// a connection, but would send a Terminate message first.
		_ = s.conn.PgConn().Conn().Close()
	}
	unknown = s.unknown(err)
	s.release()
	if unknown {
		s.call.at(s.caller, stepUnknown)
	} else {
		s.call.at(s.caller, stepUndone)
	}
	return unknown
}

func (s *Sent) unknown(err error) bool {
	if !s.commits || s.conn == nil || errors.As(err, new(pgx.ErrPreprocessingBatch)) {
		return false
	}
	if !ambiguousCommit(err) && !(s.ending && interrupted(err)) {
		return false
	}
	// Before any reply, an error on an open connection is pgx's own: for example an
	// argument that cannot be encoded.
	return s.begun || s.conn.IsClosed()
}

func (s *Sent) release() {
	if s.tx != nil {
		rollback(s.caller, s.tx)
	}
	s.giveBack()
	s.stop()
}

// harmless reports whether an SQLSTATE leaves the prepared statements valid: refusals,
// concurrency errors, constraint violations.
func harmless(code string) bool {
	return strings.HasPrefix(code, "ZF") || strings.HasPrefix(code, "23") || strings.HasPrefix(code, "40") || code == pgadmit.LockTimeout
}

// notSent returns the error of a write whose context had ended before it was sent.
func notSent(err error) error { return fmt.Errorf("sqlguard: nothing was sent: %w", err) }

// rollback also returns the connection to its pool. It does nothing after the transaction
// has ended. Its error is ignored: then the connection is closed, and the server rolls
// back.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := writectx.ForCleanup(ctx)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// OutcomeError is an error with its outcome. errors.Is and errors.As find both, and no
// other outcome.
type OutcomeError struct{ Outcome, Err error }

// Error omits the driver's text of a refusal, which adds nothing.
func (v *OutcomeError) Error() string {
	if errors.Is(v.Outcome, guard.ErrStale) {
		return v.Outcome.Error()
	}
	return v.Outcome.Error() + ": " + v.Err.Error()
}

func (v *OutcomeError) Unwrap() []error { return []error{v.Outcome, v.Err} }

// hasOutcome reports whether err has an outcome already, from a guarded write inside a
// guarded write.
func hasOutcome(err error) bool {
	for _, outcome := range []error{guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrRowNotFound, guard.ErrUnfenced} {
		if errors.Is(err, outcome) {
			return true
		}
	}
	return false
}

// NothingApplied adds to err the outcome that its SQLSTATE means, if any. It is for
// transactions that certainly were not committed.
func NothingApplied(err error) error {
	if err == nil || hasOutcome(err) {
		return err
	}
	if outcome := pgadmit.Outcome(SQLState(err)); outcome != nil {
		return &OutcomeError{outcome, err}
	}
	return err
}

// ambiguousCommit reports whether err leaves it unknown if a COMMIT that was sent took
// effect, as [pgadmit.Ambiguous] defines.
//
// SafeToRetry means that nothing was sent, with one exception: in the simple protocol pgx
// 5.12 returns "conn closed" for a connection that broke while it waited for the reply,
// and reports that error as safe to retry.
func ambiguousCommit(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) {
		return false
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	return pgadmit.Ambiguous(pg.Code, cmp.Or(pg.SeverityUnlocalized, pg.Severity))
}

// interrupted reports whether the reply to a COMMIT is the end of the session, which may
// follow a successful COMMIT: see [pgadmit.Interrupted].
func interrupted(err error) bool { return pgadmit.Interrupted(SQLState(err)) }

// ambiguous reports whether err may follow a successful COMMIT.
func ambiguous(err error) bool { return err != nil && (ambiguousCommit(err) || interrupted(err)) }

// SQLState returns the SQLSTATE of err, or "".
func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
