package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Error numbers: MySQL 8.0 Error Message Reference; MariaDB Error Codes.
const (
	numberShutdown    = 1053 // ER_SERVER_SHUTDOWN
	numberNoTable     = 1146
	numberLockWait    = 1205 // innodb_lock_wait_timeout; rolls the statement back, and no more
	numberDeadlock    = 1213 // rolls the transaction back
	numberChanged     = 1020 // ER_CHECKREAD, of MariaDB's innodb_snapshot_isolation; as 1213
	numberNoSavepoint = 1305
	numberKilled      = 1927 // ER_CONNECTION_KILLED, of MariaDB
	numberKilled8     = 3169 // ER_SESSION_WAS_KILLED, of MySQL
	numberIdle8       = 4031 // ER_CLIENT_INTERACTION_TIMEOUT, of MySQL 8.0.24
)

var errUnclaimed = errors.New("it has not raised the mark yet, which it must do in a transaction of its own")

// mysqlNumber is the number of the server's error in err, or 0. The driver has
// it in a field of its type and in no method.
func mysqlNumber(err error) uint64 {
	if fields := reflect.Indirect(reflect.ValueOf(err)); fields.Kind() == reflect.Struct {
		if number := fields.FieldByName("Number"); number.IsValid() && number.Kind() == reflect.Uint16 {
			return number.Uint()
		}
	}
	switch err := err.(type) { //nolint:errorlint // the chain itself is walked
	case interface{ Unwrap() error }:
		return mysqlNumber(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			if number := mysqlNumber(err); number != 0 {
				return number
			}
		}
	}
	return 0
}

func (*mysql) failed(err error, tok token.Token) error {
	switch mysqlNumber(err) {
	case numberNoTable:
		return fmt.Errorf("stdsql: the database lacks what package migrations creates: %w", err)
	case numberLockWait:
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: err, harmless: true}
	}
	return fmt.Errorf("stdsql: admit %s: %w", tok, err)
}

// place is a savepoint behind the admissions. It goes when the transaction
// does, and neither MySQL nor MariaDB tells in another way.
const place = "fencepost"

func (*mysql) hold(ctx context.Context, t *transaction) error {
	_, err := t.ExecContext(ctx, "SAVEPOINT "+place)
	return err
}

// check finds out whether the transaction is still the one of the admission.
// Statements that commit by themselves (CREATE TABLE, TRUNCATE, LOCK TABLES …)
// have ended it, and a deadlock. What came behind them went around the fence,
// and the session may have locked tables besides.
func (*mysql) check(ctx context.Context, t *transaction) error {
	_, err := t.ExecContext(ctx, "RELEASE SAVEPOINT "+place)
	switch {
	case mysqlNumber(err) == numberNoSavepoint:
		t.spoilt = true
		return errEndedInFn
	case errors.Is(err, sql.ErrTxDone):
		return nil // for COMMIT to say
	}
	return err
}

// undone: Galera finds conflicts only when it commits. Of any other error of a
// COMMIT nobody knows.
func (d *mysql) undone(t *transaction, err error) bool {
	known := d.cut(err)
	if !known && !errors.Is(err, sql.ErrTxDone) {
		t.discard()
	}
	return known
}

func (*mysql) cut(err error) bool {
	switch mysqlNumber(err) {
	case numberDeadlock, numberLockWait, numberChanged:
		return true
	}
	return false
}

// outcome: MariaDB, and MySQL before 8.0.24, end an idle session without a
// word. So a connection that is gone from a transaction as old as the bound
// counts as that.
func (d *mysql) outcome(err error, age time.Duration) error {
	switch mysqlNumber(err) {
	case numberDeadlock, numberLockWait, numberChanged:
		return guard.ErrRetryable
	case numberShutdown, numberKilled, numberKilled8, numberIdle8:
		return guard.ErrEvicted
	}
	if d.bound > 0 && age >= d.bound && (errors.Is(err, driver.ErrBadConn) || mysqlGone(err)) {
		return guard.ErrEvicted
	}
	return nil
}

// mysqlGone is what the driver says of a connection that was closed.
var mysqlGone = says("invalid connection")
