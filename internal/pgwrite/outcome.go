package pgwrite

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
)

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

// notSent returns the error of a write whose context had ended before it was sent.
func notSent(err error) error { return fmt.Errorf("sqlguard: nothing was sent: %w", err) }

// mayBeStandby reports whether a standby may have returned the error of an admission. A
// server skips the rest of the request then, and a standby could not run it. A pooler that
// sends each statement of a batch to a server of its choice does not skip it:
//
//  1. The admission is sent to the standby, which returns the error.
//  2. The next statement is sent to the primary, and committed there.
//
// A standby returns one of these errors:
//
//   - the one that admit raises on a standby
//   - class 42 or 3F000, before it has replayed the migration or the GRANT
//   - class 40, if the replay cancels the admission. The text depends on lc_messages, so
//     the file of the server decides: no other error of this class is raised in the two.
//
// Two errors of a standby are not recognised: it ends the session (57P01), or a timeout
// cancels the admission (57014). A primary returns the same while the admission waits for
// older writers, and applies nothing.
func mayBeStandby(pg *pgconn.PgError) bool {
	switch pg.Code[:min(2, len(pg.Code))] {
	case "25":
		return pg.Code == pgadmit.ReadOnly && pg.Message == onStandby
	case "3F", "42":
		return true
	case "40":
		return pg.File == "postgres.c" || pg.File == "standby.c"
	}
	return false
}

// onStandby is the error that admit raises on a standby.
const onStandby = "fencepost: this is a standby"
