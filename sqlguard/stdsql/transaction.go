package stdsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// transaction keeps its connection until no transaction is open on it. database/sql
// considers a transaction over whatever COMMIT returned. In SQLite it is still open after
// SQLITE_BUSY. A connection that returned to the pool like that would lock all other
// writers out.
type transaction struct {
	*sql.Tx
	*call
	conn        *sql.Conn
	restoreConn func(conn *sql.Conn) error // MySQL's, once the connection was prepared
	begun       time.Time
	interrupt   context.CancelFunc // ends a COMMIT or ROLLBACK, if the driver observes the context of BeginTx
	fnStarted   bool               // fn was called with it
	// joinFailed means that a Join in fn failed, so nothing may be committed.
	joinFailed atomic.Bool
	// discardConn means that the connection must not return to the pool. It cannot be
	// closed before database/sql considers the transaction over.
	discardConn bool
	endStep     step // how it ended, if known
}

// begin begins a transaction and admits the tokens in it. If one of them is blocked, it
// returns no transaction.
func (c *call) begin(ctx context.Context) (*transaction, *blocked, error) {
	if err := writectx.CheckSend(ctx); err != nil {
		return nil, nil, notSent(err)
	}
	t := &transaction{call: c, begun: time.Now(), endStep: stepUndone}
	t.at(ctx, stepBegin)
	admitted := false
	defer func() { // also if a hook panics
		if !admitted {
			t.close(ctx)
		}
	}()
	inner, cancel := writectx.New(ctx)
	defer cancel()
	inner = withKey(inner, t)
	if err := t.open(inner); err != nil {
		if t.conn != nil {
			err = t.wrongDialect(inner, t.conn, err)
		}
		return nil, nil, t.outcomeError(err)
	}
	if block, err := t.admitAll(inner, t.Tx); block != nil || err != nil {
		return nil, block, t.outcomeError(err)
	}
	if my, is := t.dialect.(*mysql); is && t.purpose == writing {
		if err := my.setSavepoint(inner, t); err != nil {
			return nil, nil, t.outcomeError(fmt.Errorf("stdsql: begin: %w", err))
		}
	}
	t.begun = time.Now()
	admitted = true
	return t, nil, nil
}

// open waits for a connection and for the reply to BEGIN until ctx ends. The transaction
// is detached from ctx, since database/sql rolls back when the context of BeginTx ends,
// even just before COMMIT. A SQLite driver that is interrupted may leave a transaction
// open.
func (t *transaction) open(ctx context.Context) (err error) {
	switch {
	case t.DB == nil:
		return errNoDB
	case t.Guard.Tx != nil && t.Guard.Tx.ReadOnly:
		return errReadOnly
	}
	if t.conn, err = t.DB.Conn(ctx); err != nil {
		return notSent(err)
	}
	if !t.isLocal() {
		if err := t.checkConn(ctx, t.conn, t.conn); err != nil {
			return err
		}
	}
	if my, is := t.dialect.(*mysql); is {
		t.restoreConn = my.restoreConn
		if err := my.prepareConn(ctx, t.conn, t.call); err != nil {
			return err
		}
	}
	options := t.Guard.Tx
	if t.Dialect == Postgres && t.purpose.claims() {
		options = readCommitted
	}
	detached, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	t.interrupt = interrupt
	stop := func() bool { return true }
	if !t.isLocal() {
		stop = context.AfterFunc(ctx, interrupt)
	}
	t.Tx, err = t.conn.BeginTx(detached, options)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("stdsql: begin: %w", err)
	}
	if t.isLocal() {
		return t.checkConn(ctx, t.conn, t.Tx)
	}
	return nil
}

// blocked is the obstacle of an admission that can succeed later: after the token was
// claimed, or after the older writers have finished.
type blocked struct {
	tok      token.Token
	outcome  error // returned to the caller if nothing else can be done
	err      error
	txUsable bool // the transaction can continue
}

// error returns the error for a caller that does not wait.
func (b *blocked) error() error {
	return fmt.Errorf("%w: stdsql: %s: %w", b.outcome, action(b.tok), b.err)
}

// admitAll admits the tokens in tx. If one of them is blocked, those before it may be
// admitted.
func (c *call) admitAll(ctx context.Context, tx Tx) (*blocked, error) {
	for _, tok := range c.toks {
		var block *blocked
		var err error
		if c.minted != nil {
			*c.minted, block, err = c.mint(ctx, tx, tok, c.purpose)
		} else {
			block, err = c.admit(ctx, tx, tok, c.purpose)
		}
		if block, err = c.report(ctx, block, err); block != nil || err != nil {
			return block, c.wrongDialect(ctx, tx, err)
		}
	}
	return nil, nil
}

// run calls fn, if there is one, and ends the transaction, even if fn panics.
func (t *transaction) run(ctx context.Context, fn func(tx *sql.Tx) error) error {
	defer t.close(ctx)
	if fn == nil {
		return t.commit(ctx)
	}
	t.fnStarted = true
	updateTxs.Store(t.Tx, t)
	t.at(ctx, stepAdmitted)
	switch err := fn(t.Tx); {
	case errors.Is(err, errFound):
		if lost := t.end(t.Commit, writectx.Timeout); lost != nil {
			t.ensureRolledBack(lost)
			return fmt.Errorf("commit: %w", lost)
		}
		return err
	case err != nil:
		return t.abort(ctx, err, t.endsTransaction(err))
	}
	t.at(ctx, stepCommit)
	if err := t.commit(ctx); err != nil {
		return err
	}
	t.endStep = stepApplied
	return nil
}

var (
	errEndedByFn = errors.New("stdsql: fn ended the transaction")
	errNotJoined = errors.New("stdsql: commit was not sent: a Join in fn failed")
	errEndedInFn = errors.New("stdsql: a statement in fn ended the transaction")
)

// commit sends COMMIT, unless the transaction cannot be committed any more. Its error
// includes the outcome.
func (t *transaction) commit(ctx context.Context) error {
	if err := writectx.CheckCommit(ctx); err != nil {
		return t.abort(ctx, fmt.Errorf("stdsql: commit was not sent: %w", err), false)
	}
	if t.joinFailed.Load() {
		return t.abort(ctx, errNotJoined, false)
	}
	switch ended, err := t.runBeforeEnd(ctx, writectx.ForCommit); {
	case ended:
		return t.unknownOutcome(errEndedInFn)
	case err != nil:
		return t.outcomeError(fmt.Errorf("stdsql: commit was not sent: %w", err))
	}
	if t.dropsCommit(ctx) {
		return t.unknownOutcome(errReplyLost)
	}
	err := t.end(t.Commit, writectx.Timeout)
	switch {
	case err == nil && t.dropsReply(ctx):
		return t.unknownOutcome(errReplyLost)
	case err == nil:
		return nil
	}
	undone := t.notApplied(err)
	if t.isLocal() || !undone {
		undone = t.ensureRolledBack(err) || undone
	}
	lost := fmt.Errorf("stdsql: commit: %w", err)
	switch pg, is := t.dialect.(*postgres); {
	case undone:
		return t.outcomeError(lost)
	case errors.Is(err, sql.ErrTxDone):
		return t.unknownOutcome(errEndedByFn)
	case sqliteNone(err):
		return t.unknownOutcome(errEndedInFn)
	case is:
		return pg.settle(ctx, t, lost)
	}
	return t.unknownOutcome(lost)
}

// ensureRolledBack ends a transaction that may still be open on a connection although
// database/sql considers it over, because COMMIT or ROLLBACK returned err. A server rolls
// back when a connection ends. On SQLite it sends a ROLLBACK, and reports whether there was
// something to roll back. Otherwise SQLite may have rolled back by itself, or may have
// committed without a reply, or the driver has rolled back already.
func (t *transaction) ensureRolledBack(err error) (wasOpen bool) {
	if !t.isLocal() {
		if !errors.Is(err, sql.ErrTxDone) {
			t.discard()
		}
		return false
	}
	_, err = t.conn.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && !sqliteNone(err) {
		t.discard()
	}
	return err == nil
}

// abort rolls back and returns err with its outcome. fnSawEnd means that err is the error
// of a statement that ended the transaction.
func (t *transaction) abort(ctx context.Context, err error, fnSawEnd bool) error {
	endedInFn, _ := t.runBeforeEnd(ctx, writectx.ForCleanup)
	rollbackErr := t.end(t.Rollback, writectx.CleanupTimeout)
	switch {
	case rollbackErr == nil && !endedInFn, rollbackErr != nil && t.ensureRolledBack(rollbackErr):
		return t.outcomeError(err)
	case errors.Is(rollbackErr, sql.ErrTxDone):
		return t.unknownOutcome(fmt.Errorf("%w: %w", errEndedByFn, err))
	case (endedInFn || sqliteNone(rollbackErr)) && !fnSawEnd:
		return t.unknownOutcome(fmt.Errorf("%w: %w", errEndedInFn, err))
	}
	return t.outcomeError(err)
}

// errInterrupted is the error of a COMMIT during which the guard has cancelled the context
// of BeginTx. A driver (lib/pq) then cancels the statement, PostgreSQL stops to wait for a
// synchronous standby, and replies with success.
var errInterrupted = errors.New("the server did not reply in time, and the driver may have cancelled its wait for a standby")

// end calls Commit or Rollback, which take no context. If the server does not reply in
// time, the context of BeginTx is cancelled. Drivers that ignore that context have
// timeouts.
func (t *transaction) end(end func() error, timeout time.Duration) error {
	timer := time.AfterFunc(timeout, t.interrupt)
	err := end()
	if !timer.Stop() && err == nil && !t.isLocal() {
		err = errInterrupted
	}
	return err
}

// runBeforeEnd reports whether the transaction has ended inside fn. If it returns an
// error, COMMIT need not be sent.
func (t *transaction) runBeforeEnd(ctx context.Context, bound func(context.Context) (context.Context, context.CancelFunc)) (ended bool, err error) {
	if !t.fnStarted {
		return false, nil
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	return t.beforeEnd(withKey(ctx, t), t)
}

// close returns the connection. It rolls back what neither commit nor abort has ended:
// after a refusal, a panic, or runtime.Goexit.
func (t *transaction) close(ctx context.Context) {
	defer func() { t.at(ctx, t.endStep) }()
	if t.conn == nil {
		return
	}
	if t.Tx != nil {
		updateTxs.Delete(t.Tx)
		_, _ = t.runBeforeEnd(ctx, writectx.ForCleanup) // MySQL's driver bounds no Rollback: this closes a connection that is dead
		if err := t.end(t.Rollback, writectx.CleanupTimeout); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.ensureRolledBack(err)
		}
	}
	if t.discardConn || t.restoreConn != nil && t.restoreConn(t.conn) != nil {
		t.discard()
	}
	t.conn.Close()
	if t.interrupt != nil {
		t.interrupt()
	}
}

// discard closes the connection in place of returning it to the pool.
func (t *transaction) discard() {
	_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
}

func (t *transaction) outcomeError(err error) error {
	return t.withOutcome(err, time.Since(t.begun))
}

// withOutcome joins err to the outcome that it means, if any, for a transaction of that age
// of which nothing was applied.
func (c *call) withOutcome(err error, age time.Duration) error {
	if err == nil || hasOutcome(err) {
		return err
	}
	if outcome := c.outcome(err, age); outcome != nil {
		return fmt.Errorf("%w: %w", outcome, err)
	}
	return err
}

func hasOutcome(err error) bool {
	for _, outcome := range []error{guard.ErrRetryable, guard.ErrEvicted, guard.ErrClaimFirst, guard.ErrUnknown} {
		if errors.Is(err, outcome) {
			return true
		}
	}
	return guard.IsRefusal(err)
}

func (t *transaction) unknownOutcome(err error) error {
	t.endStep = stepUnknown
	return &unknownError{err}
}

// unknownError is an error that leaves the outcome unknown.
type unknownError struct{ err error }

func (o *unknownError) Error() string   { return guard.ErrUnknown.Error() + ": " + o.err.Error() }
func (o *unknownError) Unwrap() []error { return []error{guard.ErrUnknown, o.err} }

// claimError returns the error of a write whose claim failed with err. If the claim's
// outcome is unknown, the mark may be raised, but nothing of the write was sent, so the
// write's outcome is known.
func claimError(err error) error {
	if o := (*unknownError)(nil); errors.As(err, &o) {
		return fmt.Errorf("stdsql: claim before the write: %w", o.err)
	}
	return err
}
