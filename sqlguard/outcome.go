package sqlguard

import (
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// What the functions of package migrations raise. PostgreSQL leaves classes
// that begin with Z to others.
const (
	codeStale      = "ZF001"
	codeCollision  = "ZF002"
	codeClaimFirst = "ZF004"
)

// PostgreSQL's own: manual, appendix A.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeIdle          = "25P03" // idle_in_transaction_session_timeout
	codeTooLong       = "25P04" // transaction_timeout, of PostgreSQL 17
	codeTerminated    = "57P01" // pg_terminate_backend, or a shutdown
	codeNoSchema      = "3F000"
	codeNoFunction    = "42883"
)

// verdict is an error with its outcome. Both are found by errors.Is and
// errors.As; the outcome is the only one.
type verdict struct{ outcome, err error }

// Error leaves out the driver's text of a refusal, which says nothing more.
func (v *verdict) Error() string {
	if errors.Is(v.outcome, guard.ErrStale) {
		return v.outcome.Error()
	}
	return v.outcome.Error() + ": " + v.err.Error()
}

func (v *verdict) Unwrap() []error { return []error{v.outcome, v.err} }

// hasOutcome finds the verdict of a guarded write inside a guarded write.
func hasOutcome(err error) bool {
	for _, outcome := range []error{guard.ErrStale, guard.ErrRetryable, guard.ErrUnknown, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrNoRow} {
		if errors.Is(err, outcome) {
			return true
		}
	}
	return false
}

// nothingApplied gives err the outcome that its SQLSTATE says, if any, where
// it is certain that the transaction was not committed.
func nothingApplied(err error) error {
	if err == nil || hasOutcome(err) {
		return err
	}
	switch sqlState(err) {
	case codeSerialization, codeDeadlock:
		return &verdict{guard.ErrRetryable, err}
	case codeIdle, codeTooLong, codeTerminated:
		return &verdict{guard.ErrEvicted, err}
	}
	return err
}

// severed reports whether err leaves open what became of a COMMIT that was
// sent. An ERROR answers it: rolled back. A FATAL one ends the session, but
// may come from a pooler that has lost its server (class 08), or from a server
// that could not write its log any more (PANIC, and the record may be there).
//
// SafeToRetry means that nothing was sent, with one exception: in the simple
// protocol pgx 5.12 says "conn closed" of a connection that broke while the
// answer was awaited, and that error calls itself safe to retry.
func severed(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) {
		return false
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return true
	}
	switch {
	case pg.Code == codeIdle, pg.Code == codeTooLong, pg.Code == codeTerminated:
		return false
	case strings.HasPrefix(pg.Code, "08"):
		return true
	}
	severity := pg.SeverityUnlocalized
	if severity == "" {
		severity = pg.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// stale returns the refusal that pg is, or nil.
func stale(tok token.Token, pg *pgconn.PgError) *guard.StaleError {
	if pg.Code != codeStale && pg.Code != codeCollision {
		return nil
	}
	number, holder, _ := strings.Cut(pg.Detail, " ")
	mark := guard.Mark{Holder: holder}
	mark.Number, _ = strconv.ParseInt(number, 10, 64)
	if pg.Code == codeCollision {
		mark.Number = tok.Number // also where somebody has cut off the detail
	}
	return &guard.StaleError{Token: tok, Mark: mark}
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}
