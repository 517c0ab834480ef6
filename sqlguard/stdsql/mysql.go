package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// mysql admits the writers of one token under a shared lock on the mark's row, and raises
// the mark under an exclusive lock. InnoDB grants no later lock before a waiting one, so
// a successor is not starved. No transaction takes the shared lock and then the exclusive
// one: two such transactions would deadlock.
type mysql struct {
	guard *Guard
	rowUnits
	bound time.Duration // Guard.IdleTimeout, 0 for no bound
	// marks are the marks that a claim has read before its transaction.
	marks map[string]guard.Mark
}

// prepareConn bounds the idle time, and reads the marks before a claim. A read outside a
// transaction takes no lock and no snapshot, so repeated claims of a stale holder, or of
// one that has claimed before, block no other session.
func (d *mysql) prepareConn(ctx context.Context, conn *sql.Conn, c *call) error {
	if d.bound > 0 {
		if _, err := conn.ExecContext(ctx, setIdleSQL(d.bound)); err != nil {
			return fmt.Errorf("stdsql: bound the idle time: %w", err)
		}
	}
	if !c.purpose.claims() || c.minted != nil { // a mint raises every mark
		return nil
	}
	d.marks = make(map[string]guard.Mark, len(c.toks))
	for _, tok := range c.toks {
		mark, err := d.readMark(ctx, conn, tok)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			block, err := d.failed(err, tok)
			if block != nil {
				return block.error()
			}
			return err
		}
		d.marks[tok.Resource] = mark
	}
	return nil
}

// restoreConn undoes prepareConn.
func (d *mysql) restoreConn(conn *sql.Conn) error {
	if d.bound == 0 {
		return nil
	}
	ctx, cancel := writectx.ForCleanup(context.Background())
	defer cancel()
	_, err := conn.ExecContext(ctx, mysqlIdleRestore)
	return err
}

func (d *mysql) admit(ctx context.Context, tx Tx, tok token.Token, p purpose) (*blocked, error) {
	floor := guard.Mark{}
	if mark := d.marks[tok.Resource]; p.claims() && mark.Number < tok.Number {
		var err error
		if floor, err = d.raise(ctx, tx, tok); err != nil {
			return d.failed(err, tok)
		}
	}
	var mark guard.Mark
	var checked sql.NullString
	err := tx.QueryRowContext(ctx, tokenSQL(mysqlShare, tok)).Scan(&mark.Number, &mark.Holder, &checked)
	switch {
	case errors.Is(err, sql.ErrNoRows) && floor.Number > tok.Number:
		return nil, &guard.StaleError{Token: tok, Mark: floor}
	case errors.Is(err, sql.ErrNoRows) && p.claims():
		// prepareConn read the mark, and it was pruned since.
		return nil, fmt.Errorf("%w: stdsql: admit %s: the mark was pruned just now", guard.ErrRetryable, tok)
	case errors.Is(err, sql.ErrNoRows), err == nil && mark.Number < tok.Number:
		return &blocked{tok: tok, outcome: guard.ErrClaimFirst, err: errUnclaimed, txUsable: true}, nil
	case err != nil:
		return d.failed(err, tok)
	case mark.Admits(tok) != nil:
		return nil, mark.Admits(tok)
	case p == joining:
		if err := d.guard.checkSession(ctx, tx, d, checked, "SET @fencepost_engine = '"+engineChecked+"'"); err != nil {
			return nil, err
		}
		return d.checkSnapshot(ctx, tx, tok)
	}
	return nil, nil
}

// raise raises the mark to tok and returns the floor, with which a token is compared if
// its resource has no mark.
func (d *mysql) raise(ctx context.Context, tx Tx, tok token.Token) (floor guard.Mark, err error) {
	if err := tx.QueryRowContext(ctx, mysqlFloor).Scan(&floor.Number); err != nil {
		return floor, err
	}
	raise := mysqlRaise
	if tok.Number < floor.Number {
		raise = mysqlRaiseBelow
	}
	_, err = tx.ExecContext(ctx, tokenSQL(raise, tok))
	return floor, err
}

// mint locks the mark first, so that the clock is read after the wait. Inside a caller's
// transaction it returns ErrClaimFirst. The snapshot there may be older than the lock,
// and no statement returns the isolation level or the snapshot's age:
//
//  1. The transaction reads, under the default REPEATABLE READ.
//  2. An older writer commits under the old mark.
//  3. The transaction mints, reads the old snapshot again, and writes.
func (d *mysql) mint(ctx context.Context, tx Tx, tok token.Token, p purpose) (number int64, block *blocked, err error) {
	if p == joining {
		return 0, &blocked{tok: tok, outcome: guard.ErrClaimFirst, err: errSnapshot, txUsable: true}, nil
	}
	mark, err := d.raiseForMint(ctx, tx, tok)
	switch {
	case err != nil:
		block, err = d.failed(err, tok)
	case mark.Number == 0:
		err = exhausted(tok, nil)
	}
	return mark.Number, block, err
}

// raiseForMint raises the mark of tok's resource to the next number, and returns it. It
// returns no mark if no number is left.
func (d *mysql) raiseForMint(ctx context.Context, tx Tx, tok token.Token) (none guard.Mark, err error) {
	var floor int64
	if err := tx.QueryRowContext(ctx, mysqlFloor).Scan(&floor); err != nil {
		return none, err
	}
	if _, err := tx.ExecContext(ctx, floorSQL(floor, mysqlMintLock, tok)); err != nil {
		return none, err
	}
	result, err := tx.ExecContext(ctx, floorSQL(floor, mysqlMint, tok))
	if err != nil {
		return none, err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return none, err
	}
	return d.readMark(ctx, tx, tok)
}

// checkSnapshot returns [guard.ErrRetryable] if the caller's transaction took its
// snapshot before the token was claimed. Then the snapshot lacks the last older writes:
//
//  1. The transaction reads, under the default REPEATABLE READ.
//  2. An older writer commits. The token is claimed.
//  3. The transaction joins, reads the old snapshot again, and writes.
func (d *mysql) checkSnapshot(ctx context.Context, tx Tx, tok token.Token) (*blocked, error) {
	mark, err := d.readMark(ctx, tx, tok)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && mark != guard.Mark{Number: tok.Number, Holder: tok.Holder}:
		return nil, fmt.Errorf("%w: stdsql: admit %s: the transaction has read before the token was claimed", guard.ErrRetryable, tok)
	case err != nil:
		return d.failed(err, tok)
	}
	return nil, nil
}

func (*mysql) readMark(ctx context.Context, from engine.Rower, tok token.Token) (mark guard.Mark, err error) {
	err = from.QueryRowContext(ctx, tokenSQL(mysqlMark, tok)).Scan(&mark.Number, &mark.Holder)
	return mark, err
}

// probe takes no snapshot, so Join can run it in a transaction.
func (*mysql) probe(ctx context.Context, from Tx) error {
	vars, err := engine.AskMySQL(ctx, from)
	if err != nil {
		return fmt.Errorf("stdsql: query the engine: %w", err)
	}
	return engine.CheckMySQL(vars)
}

var (
	mysqlMark        = statement("mysql_mark.sql")
	mysqlShare       = statement("mysql_share.sql")
	mysqlFloor       = statement("mysql_floor.sql")
	mysqlRaise       = statement("mysql_raise.sql")
	mysqlRaiseBelow  = statement("mysql_raise_below.sql")
	mysqlMintLock    = statement("mysql_mint_lock.sql")
	mysqlMint        = statement("mysql_mint.sql")
	mysqlIdleSet     = statement("mysql_idle_set.sql")
	mysqlIdleRestore = statement("mysql_idle_restore.sql")
)

// tokenSQL inserts a token into a statement as literals. A statement with parameters
// would be prepared first, in a second round trip, unless the DSN disables that; and the
// connection's character set may change the bytes of parameters. A hexadecimal literal is
// a binary string and needs no quoting.
func tokenSQL(text string, tok token.Token) string {
	return strings.NewReplacer(
		"{resource}", hex.EncodeToString([]byte(tok.Resource)),
		"{number}", strconv.FormatInt(tok.Number, 10),
		"{holder}", hex.EncodeToString([]byte(tok.Holder)),
	).Replace(text)
}

// floorSQL is tokenSQL with the floor.
func floorSQL(floor int64, text string, tok token.Token) string {
	return strings.ReplaceAll(tokenSQL(text, tok), "{floor}", strconv.FormatInt(floor, 10))
}

// setIdleSQL inserts a bound into mysql_idle_set.sql, rounded up to whole seconds.
func setIdleSQL(bound time.Duration) string {
	seconds := int64((bound + time.Second - 1) / time.Second)
	return strings.Replace(mysqlIdleSet, "{seconds}", strconv.FormatInt(seconds, 10), 1)
}

// Error numbers: MySQL 8.0 Error Message Reference; MariaDB Error Codes; TiDB,
// "Error Codes and Troubleshooting".
const (
	numberShutdown    = 1053 // ER_SERVER_SHUTDOWN
	numberNoTable     = 1146
	numberDuplicate   = 1062 // ER_DUP_ENTRY
	numberLockWait    = 1205 // innodb_lock_wait_timeout; rolls only the statement back
	numberDeadlock    = 1213 // rolls the transaction back
	numberChanged     = 1020 // ER_CHECKREAD of MariaDB's innodb_snapshot_isolation; like 1213
	numberNoSavepoint = 1305
	numberKilled      = 1927 // ER_CONNECTION_KILLED, of MariaDB
	numberKilled8     = 3169 // ER_SESSION_WAS_KILLED, of MySQL
	numberIdle8       = 4031 // ER_CLIENT_INTERACTION_TIMEOUT, of MySQL 8.0.24
	// Numbers of TiDB. They roll the transaction back, and mostly occur at COMMIT.
	numberLockedConflict = 8002 // after SELECT … FOR UPDATE
	numberStaleConflict  = 8005 // Write Conflict, txnStartTS is stale
	numberCommitConflict = 8022 // KV error safe to retry
	numberWriteConflict  = 9007
)

var (
	errUnclaimed = errors.New("the token has not raised the mark yet: claim it before the transaction")
	errSnapshot  = errors.New("the snapshot may be older than the last write: call Mint before the transaction, and Join in it")
)

// failed returns the obstacle or the error that err means, for a statement that admits
// tok.
func (*mysql) failed(err error, tok token.Token) (*blocked, error) {
	switch engine.MySQLNumber(err) {
	case numberNoTable:
		return nil, fmt.Errorf("stdsql: the database lacks tables: run migrations.Up: %w", err)
	case numberLockWait:
		return &blocked{tok: tok, outcome: guard.ErrRetryable, err: err, txUsable: true}, nil
	}
	return nil, fmt.Errorf("stdsql: %s: %w", action(tok), err)
}

// savepoint is the name of a savepoint after the admissions. It disappears with the
// transaction. MySQL and MariaDB have no other sign of that.
const savepoint = "fencepost"

func (*mysql) setSavepoint(ctx context.Context, t *transaction) error {
	_, err := t.ExecContext(ctx, "SAVEPOINT "+savepoint)
	return err
}

// beforeEnd checks that the transaction is still the one of the admission. Statements
// that commit implicitly (CREATE TABLE, TRUNCATE, LOCK TABLES …) end it, and so does a
// deadlock. Later statements ran unguarded, and the session may hold table locks.
func (*mysql) beforeEnd(ctx context.Context, t *transaction) (endedInFn bool, err error) {
	_, err = t.ExecContext(ctx, "RELEASE SAVEPOINT "+savepoint)
	switch {
	case engine.MySQLNumber(err) == numberNoSavepoint:
		t.discardConn = true
		return true, nil
	case errors.Is(err, sql.ErrTxDone):
		return false, nil // COMMIT returns that error
	}
	return false, err
}

// notApplied is true for conflicts, which Galera and TiDB detect at COMMIT. Any other
// error of a COMMIT leaves the outcome unknown.
func (d *mysql) notApplied(err error) bool { return d.endsTransaction(err) }

func (*mysql) endsTransaction(err error) bool { return mysqlConflict(engine.MySQLNumber(err)) }

// mysqlConflict reports whether an error number means that a conflict has undone the
// statement or the transaction, which may be run again.
func mysqlConflict(number uint64) bool {
	switch number {
	case numberDeadlock, numberLockWait, numberChanged,
		numberLockedConflict, numberStaleConflict, numberCommitConflict, numberWriteConflict:
		return true
	}
	return false
}

// outcome also detects an idle timeout. MariaDB, and MySQL before 8.0.24, send no error
// when they end an idle session. So a lost connection counts as an eviction if its
// transaction is at least as old as the bound.
func (d *mysql) outcome(err error, age time.Duration) error {
	number := engine.MySQLNumber(err)
	if mysqlConflict(number) {
		return guard.ErrRetryable
	}
	switch number {
	case numberShutdown, numberKilled, numberKilled8, numberIdle8:
		return guard.ErrEvicted
	}
	if d.bound > 0 && age >= d.bound && (errors.Is(err, driver.ErrBadConn) || mysqlGone(err)) {
		return guard.ErrEvicted
	}
	return nil
}

// mysqlGone reports the driver's error for a closed connection.
var mysqlGone = containsAny("invalid connection")
