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
)

// transaction keeps its connection until no transaction is open on it. database/sql
// considers a transaction over whatever COMMIT returned. In SQLite it is still open after
// SQLITE_BUSY. A connection that returned to the pool like that would lock all other
// writers out.
type transaction struct {
	*sql.Tx
	db   *sql.DB
	conn *sql.Conn
	dialect
	begun        time.Time
	interrupt    context.CancelFunc // ends a COMMIT or ROLLBACK, if the driver observes the context of BeginTx
	connPrepared bool               // the connection was prepared by prepareConn
	fnStarted    bool               // fn was called with it
	// joinFailed means that a Join in fn failed, so nothing may be committed.
	joinFailed atomic.Bool
	// discardConn means that the connection must not return to the pool. It cannot be
	// closed before database/sql considers the transaction over.
	discardConn bool
	endStep     step // how it ended, if known
}

// beginAdmitted begins a transaction and admits the tokens in it. If one of them is
// blocked, it returns no transaction.
func (g *Guard) beginAdmitted(ctx context.Context, a admission) (*transaction, *blocked, error) {
	if err := writectx.CheckSend(ctx); err != nil {
		return nil, nil, notSent(err)
	}
	t := &transaction{dialect: a.dialect, db: g.DB, begun: time.Now(), endStep: stepUndone}
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
	if err := g.begin(inner, t, a); err != nil {
		if t.conn != nil {
			err = g.wrongDialect(inner, t.conn, err)
		}
		return nil, nil, t.outcomeError(err)
	}
	if block, err := g.admit(inner, t.Tx, a); block != nil || err != nil {
		return nil, block, t.outcomeError(err)
	}
	if a.purpose == writing {
		if err := t.afterAdmit(inner, t); err != nil {
			return nil, nil, t.outcomeError(fmt.Errorf("stdsql: begin: %w", err))
		}
		t.begun = time.Now()
	}
	admitted = true
	return t, nil, nil
}

// begin waits for a connection and for the reply to BEGIN until ctx ends. The transaction
// is detached from ctx, since database/sql rolls back when the context of BeginTx ends,
// even just before COMMIT. A SQLite driver that is interrupted may leave a transaction
// open.
func (g *Guard) begin(ctx context.Context, t *transaction, a admission) error {
	switch {
	case g.DB == nil:
		return errNoDB
	case g.Tx != nil && g.Tx.ReadOnly:
		return errReadOnly
	}
	options := g.Tx
	if a.purpose.claims() {
		options = a.claimOptions(g.Tx)
	}
	conn, err := g.DB.Conn(ctx)
	if err != nil {
		return notSent(err)
	}
	t.conn = conn
	if !a.probesTx() {
		if err := g.checkConn(ctx, a, conn, conn); err != nil {
			return err
		}
	}
	t.connPrepared = true
	if err := a.prepareConn(ctx, conn, a); err != nil {
		return err
	}
	detached, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	t.interrupt = interrupt
	stop := func() bool { return true }
	if !t.isLocal() {
		stop = context.AfterFunc(ctx, interrupt)
	}
	tx, err := conn.BeginTx(detached, options)
	if err == nil {
		t.Tx = tx
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("stdsql: begin: %w", err)
	}
	if a.probesTx() {
		return g.checkConn(ctx, a, conn, tx)
	}
	return nil
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
			t.ensureRolledBack(t, lost)
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
	case t.notApplied(t, err):
		return t.outcomeError(fmt.Errorf("stdsql: commit: %w", err))
	case errors.Is(err, sql.ErrTxDone):
		return t.unknownOutcome(errEndedByFn)
	case t.noTransaction(err):
		return t.unknownOutcome(errEndedInFn)
	}
	return t.settle(ctx, t, fmt.Errorf("stdsql: commit: %w", err))
}

// abort rolls back and returns err with its outcome. fnSawEnd means that err is the error
// of a statement that ended the transaction.
func (t *transaction) abort(ctx context.Context, err error, fnSawEnd bool) error {
	endedInFn, _ := t.runBeforeEnd(ctx, writectx.ForCleanup)
	rollbackErr := t.end(t.Rollback, writectx.CleanupTimeout)
	switch {
	case rollbackErr == nil && !endedInFn, rollbackErr != nil && t.ensureRolledBack(t, rollbackErr):
		return t.outcomeError(err)
	case errors.Is(rollbackErr, sql.ErrTxDone):
		return t.unknownOutcome(fmt.Errorf("%w: %w", errEndedByFn, err))
	case (endedInFn || t.noTransaction(rollbackErr)) && !fnSawEnd:
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
			t.ensureRolledBack(t, err)
		}
	}
	if t.discardConn || t.connPrepared && t.restoreConn(t.conn) != nil {
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
	return outcomeError(t.dialect, err, time.Since(t.begun))
}

// outcomeError joins err to the outcome that it means, if any. It is for transactions of
// which nothing was applied.
func outcomeError(d dialect, err error, age time.Duration) error {
	if err == nil || hasOutcome(err) {
		return err
	}
	if outcome := d.outcome(err, age); outcome != nil {
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
