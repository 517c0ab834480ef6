// Package pgadmit has what the guards on PostgreSQL share, whatever their driver: the
// SQLSTATEs of a failed admission or transaction, the outcome that each means, and what
// became of a transaction whose COMMIT had no reply.
package pgadmit

import (
	"errors"
	"strconv"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// SQLSTATEs raised by the functions of package migrations. PostgreSQL does not use
// classes that begin with Z.
const (
	Stale      = "ZF001"
	Collision  = "ZF002"
	ClaimFirst = "ZF004"
	Exhausted  = "ZF005"
)

// PostgreSQL's own SQLSTATEs: manual, appendix A.
const (
	Serialization = "40001"
	Deadlock      = "40P01"
	LockTimeout   = "55P03"
	Unsupported   = "0A000" // from BEGIN READ WRITE on a standby
	ReadOnly      = "25006" // on a standby, or in a READ ONLY transaction
	Idle          = "25P03" // idle_in_transaction_session_timeout
	TooLong       = "25P04" // transaction_timeout, since PostgreSQL 17
	Terminated    = "57P01" // pg_terminate_backend, or a shutdown
	Cancelled     = "57014"
	NoSavepoint   = "3B001"
	WrongTx       = "25000" // from set_result: fn has ended the unit's transaction
	NoSchema      = "3F000"
	NoSetting     = "42704"
	NoFunction    = "42883"
)

// AdmittedSQL fails with NoSetting if its transaction was not admitted: the setting that admit
// has set lasts until the end of a transaction. The error names a setting that does not exist.
// FOR UPDATE keeps a pooler from sending it to a standby.
const AdmittedSQL = `SELECT pg_catalog.current_setting('fencepost: the transaction was not admitted')
 WHERE coalesce(pg_catalog.current_setting('fencepost.admitted', true), '') OPERATOR(pg_catalog.=) ''
   FOR UPDATE`

// Outcome returns the outcome of a transaction that failed with state and applied
// nothing, or nil if the state has no outcome of its own.
func Outcome(state string) error {
	switch state {
	case Serialization, Deadlock:
		return guard.ErrRetryable
	case Idle, TooLong, Terminated:
		return guard.ErrEvicted
	}
	return nil
}

// Interrupted reports whether state, received in place of the answer to a COMMIT, is the
// end of the session. The transaction may have been committed:
//
//  1. the COMMIT is being flushed, a successor ends the session
//  2. the server commits, and puts its answer into the buffer
//  3. it logs how long that took, and only there sees that it is to end
//  4. the answers are COMMIT and FATAL
func Interrupted(state string) bool { return state == Terminated || state == TooLong }

// Ambiguous reports whether an error of the server leaves open whether a COMMIT that was
// sent was applied. Errors for which Interrupted returns true are not considered. An
// ERROR answers the COMMIT: rolled back. A FATAL error ends the session, but may come
// from a pooler that has lost its server (class 08), or from a server that could not
// write its log any more (PANIC, and the record may be in the log). If severity is "",
// because the driver does not report it, the classes decide that may end the session.
func Ambiguous(state, severity string) bool {
	switch {
	case state == Idle || Interrupted(state):
		return false
	case strings.HasPrefix(state, "08"):
		return true
	case severity != "":
		return severity == "FATAL" || severity == "PANIC"
	}
	for _, class := range []string{"53", "57", "58", "XX"} {
		if strings.HasPrefix(state, class) {
			return state != Cancelled
		}
	}
	return false
}

// Refusal returns the refusal that state and detail describe for tok, or nil. The detail
// is the mark, as in "34 holder", and on the next line the resource. A driver or a proxy may
// have cut it off.
func Refusal(tok token.Token, state, detail string) *guard.StaleError {
	if state != Stale && state != Collision {
		return nil
	}
	detail, _, _ = strings.Cut(detail, "\n")
	text, holder, _ := strings.Cut(detail, " ")
	mark := guard.Mark{}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil {
		mark = guard.Mark{Number: number, Holder: holder}
	}
	if state == Collision {
		mark.Number = tok.Number
	}
	return &guard.StaleError{Token: tok, Mark: mark}
}

// SQLState returns the SQLSTATE of the server's error in err, or "". The method is all
// that the drivers' error types have in common.
func SQLState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}
