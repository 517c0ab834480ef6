package stdsql

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// What the functions of package migrations raise, and PostgreSQL's own: manual,
// appendix A.
const (
	stateStale         = "ZF001"
	stateCollision     = "ZF002"
	stateClaimFirst    = "ZF004"
	stateSerialization = "40001"
	stateDeadlock      = "40P01"
	stateLockTimeout   = "55P03"
	stateIdle          = "25P03" // idle_in_transaction_session_timeout
	stateTooLong       = "25P04" // transaction_timeout, of PostgreSQL 17
	stateTerminated    = "57P01" // pg_terminate_backend, or a shutdown
	stateCancelled     = "57014"
	stateNoSchema      = "3F000"
	stateNoFunction    = "42883"
)

// slow is how old a transaction is whose session may have been ended meanwhile,
// for being idle or in a successor's way.
const slow = 100 * time.Millisecond

// sqlState is the SQLSTATE of the server's error in err, or "". It is the one
// thing that the drivers' error types have in common.
func sqlState(err error) string {
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		return server.SQLState()
	}
	return ""
}

// staleOf is the refusal that err is. The mark is in the error's detail, which
// is a field of that name in pgx and lib/pq; a guard need not tell it.
func staleOf(tok token.Token, err error) *guard.StaleError {
	var mark guard.Mark
	var server interface{ SQLState() string }
	if errors.As(err, &server) {
		if fields := reflect.Indirect(reflect.ValueOf(server)); fields.Kind() == reflect.Struct {
			if detail := fields.FieldByName("Detail"); detail.IsValid() && detail.Kind() == reflect.String {
				number, holder, _ := strings.Cut(detail.String(), " ")
				mark.Holder = holder
				mark.Number, _ = strconv.ParseInt(number, 10, 64)
			}
		}
	}
	if sqlState(err) == stateCollision {
		mark.Number = tok.Number // also where somebody has cut off the detail
	}
	return &guard.StaleError{Token: tok, Mark: mark}
}

// check asks whether the session is still there, which costs a trip and spares
// an unknown outcome.
func (*postgres) check(ctx context.Context, t *transaction) error {
	if time.Since(t.begun) <= slow {
		return nil
	}
	_, err := t.ExecContext(ctx, "-- ping")
	if errors.Is(err, sql.ErrTxDone) {
		return nil // for COMMIT to say
	}
	return err
}

var (
	// What pgx and lib/pq say of a COMMIT to which the server has answered
	// ROLLBACK, since an error had aborted the transaction before.
	postgresRollback = says("commit unexpectedly resulted in rollback", "Could not complete operation in a failed transaction")
)

// undone: an ERROR answers a COMMIT with "rolled back". These classes may end
// the session instead (FATAL, PANIC), or come from a pooler that has lost its
// server: then the COMMIT may have been applied before.
//
//  1. the COMMIT is being flushed, a successor ends the session
//  2. the server commits, and puts its answer into the buffer
//  3. it logs how long that took, and only there sees that it is to end
//  4. the answers are COMMIT and FATAL
func (*postgres) undone(t *transaction, err error) bool {
	state := sqlState(err)
	known := postgresRollback(err)
	if len(state) == 5 {
		switch state[:2] {
		case "08", "53", "57", "58", "XX":
			known = state == stateCancelled
		default:
			known = state != stateTooLong
		}
	}
	if !known && !errors.Is(err, sql.ErrTxDone) {
		t.discard()
	}
	return known
}

func (*postgres) outcome(err error, _ time.Duration) error {
	switch sqlState(err) {
	case stateSerialization, stateDeadlock:
		return guard.ErrRetryable
	case stateIdle, stateTooLong, stateTerminated:
		return guard.ErrEvicted
	}
	return nil
}

var errOlder = errors.New("older writers are still in")
