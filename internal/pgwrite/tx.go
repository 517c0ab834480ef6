package pgwrite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
)

// Update runs fn in a transaction after the admission, and commits it. In the caller's
// transaction fn runs after a savepoint.
func (c *Call) Update(ctx context.Context, fn func(tx pgx.Tx) error) error {
	tx, over, err := c.begin(ctx, nil)
	if err == nil {
		err = c.run(ctx, tx, over, fn)
	}
	return guard.WithCause(ctx, err)
}

// run calls fn, ends tx and gives its session back, even if fn panics.
func (c *Call) run(ctx context.Context, tx pgx.Tx, over session, fn func(tx pgx.Tx) error) error {
	if !c.InTx() {
		ctx = c.reportedSteps(ctx)
	}
	end := stepUndone
	defer func() {
		if end != stepApplied { // after a COMMIT the connection is returned already
			_ = rollback(ctx, tx)
		}
		over.giveBack()
		c.at(end)
	}()
	begun := time.Now()
	c.at(stepAdmitted)
	if err := fn(tx); err != nil {
		if endedByFn(ctx, tx) {
			end = stepUnknown
			return &OutcomeError{guard.ErrUnknown, fmt.Errorf("sqlguard: fn ended the transaction: %w", err)}
		}
		return NothingApplied(err)
	}
	c.at(stepCommit)
	err := c.commit(ctx, tx, begun)
	end = lastStep(err)
	return err
}

// slow is the age of a transaction from which on its session is pinged before COMMIT: it
// may have been ended for being idle or for blocking a successor.
const slow = 100 * time.Millisecond

// commit ends the transaction of an Update after fn has returned nil. If the caller's
// context has ended, COMMIT is not sent and nothing is applied. If it ends later, COMMIT
// is not cut off. The loss of the lease has no effect. If the reply to the COMMIT is lost,
// commit settles the transaction.
func (c *Call) commit(caller context.Context, tx pgx.Tx, begun time.Time) error {
	conn := tx.Conn()
	if err := c.dropCommit(conn); err != nil {
		return &OutcomeError{guard.ErrUnknown, err}
	}
	if err := writectx.CheckCommit(caller); err != nil {
		return fmt.Errorf("sqlguard: commit was not sent: %w", err)
	}
	ctx, cancel := writectx.ForCommit(caller)
	defer cancel()
	if !c.InTx() && time.Since(begun) > slow && !conn.IsClosed() {
		if err := conn.Ping(ctx); err != nil {
			return NothingApplied(fmt.Errorf("sqlguard: commit was not sent: %w", err))
		}
	}
	sent := !conn.IsClosed()
	err := pgx.ErrTxClosed
	if !sent || conn.PgConn().TxStatus() != 'I' { // otherwise fn has sent a COMMIT or ROLLBACK, and our COMMIT would succeed without effect
		err = tx.Commit(ctx)
	}
	switch {
	case err == nil:
		if err = c.dropReply(conn); err != nil {
			err = &OutcomeError{guard.ErrUnknown, err}
		}
		return err
	case errors.Is(err, pgx.ErrTxClosed), SQLState(err) == pgadmit.NoSavepoint:
		return &OutcomeError{guard.ErrUnknown, fmt.Errorf("sqlguard: fn ended the transaction: %w", err)}
	case sent && !c.InTx() && ambiguous(err):
		return c.settle(caller, conn, err)
	}
	return NothingApplied(fmt.Errorf("sqlguard: commit: %w", err))
}

// endedByFn rolls tx back, and reports whether fn had ended it before: what fn wrote may be
// committed. In the caller's transaction tx is a savepoint.
func endedByFn(ctx context.Context, tx pgx.Tx) bool {
	conn := tx.Conn()
	idle := !conn.IsClosed() && conn.PgConn().TxStatus() == 'I'
	err := rollback(ctx, tx)
	return idle || errors.Is(err, pgx.ErrTxClosed) || SQLState(err) == pgadmit.NoSavepoint
}

// begin begins the transaction and admits in it. If u is not nil, it also inserts the
// unit, in the same request.
func (c *Call) begin(ctx context.Context, u *unit) (pgx.Tx, session, error) {
	if outer, ok := c.db.(pgx.Tx); ok {
		tx, err := c.nest(ctx, outer, u)
		return tx, session{}, err
	}
	s, err := c.send(ctx, request{Batch: Batch{Body: u.insertion()}, tx: openTx})
	if err != nil {
		return nil, session{}, err
	}
	if u != nil {
		if err := u.scan(s.Results.QueryRow()); err != nil {
			return nil, session{}, s.fail(s.wrap(err))
		}
	}
	if err := s.Results.Close(); err != nil {
		return nil, session{}, s.fail(s.wrap(err))
	}
	s.stop()
	if c.DangerouslyReportOnly || c.Tx.CommitQuery != "" {
		return s.tx, s.session, nil
	}
	return &checkedTx{fnTx{Tx: s.tx, conn: s.conn}}, s.session, nil
}

// checkedTx ends only the transaction that was admitted. Otherwise the guard would report what
// it did not commit, and commit what it did not guard:
//
//  1. fn sends ROLLBACK AND CHAIN. The server undoes fn's writes and the admission, and begins
//     another transaction.
//  2. A successor is admitted and writes. fn writes once more.
//  3. COMMIT succeeds.
//
// The check shares the packet of the COMMIT or ROLLBACK.
type checkedTx struct{ fnTx }

// Commit returns an error for which errors.Is finds [pgx.ErrTxClosed] if the admitted transaction
// has ended. That of a transaction that has failed is pgx's.
func (t *checkedTx) Commit(ctx context.Context) error {
	if !t.open() {
		return t.Tx.Commit(ctx)
	}
	return t.end(ctx, commitSQL)
}

// Rollback returns the errors of Commit.
func (t *checkedTx) Rollback(ctx context.Context) error {
	if !t.open() {
		return t.Tx.Rollback(ctx)
	}
	err := t.end(ctx, "rollback")
	if err == nil {
		return nil
	}
	if left := t.Tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		err = left
	}
	return err
}

func (t *checkedTx) open() bool { return !t.conn.IsClosed() && t.conn.PgConn().TxStatus() == 'T' }

// end sends the check and command. If the check fails, the server skips command.
func (t *checkedTx) end(ctx context.Context, command string) error {
	b := &pgx.Batch{}
	b.Queue(pgadmit.AdmittedSQL)
	b.Queue(command)
	results := t.SendBatch(ctx, b)
	_, err := results.Exec()
	if SQLState(err) == pgadmit.NoSetting {
		err = fmt.Errorf("%w: %w", pgx.ErrTxClosed, err)
	}
	if err == nil {
		_, err = results.Exec()
	}
	if harmless(SQLState(err)) {
		b.QueuedQueries = nil // as in Discard
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if t.conn.PgConn().TxStatus() == 'I' {
		t.close()
	}
	return err
}

// fnTx can be closed without a round trip, with the savepoints in it.
type fnTx struct {
	pgx.Tx
	conn       *pgx.Conn
	savepoints []*fnTx
}

func (t *fnTx) Conn() *pgx.Conn { return t.conn }

func (t *fnTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	sp := &fnTx{Tx: tx, conn: t.conn}
	t.savepoints = append(t.savepoints, sp)
	return sp, nil
}

func (t *fnTx) close() {
	t.Tx = closedTx
	for _, sp := range t.savepoints {
		sp.close()
	}
}

// closedTx returns [pgx.ErrTxClosed] from all methods.
var closedTx = func() pgx.Tx {
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{})
	return pgx.FailedBatchResults(b, pgx.ErrTxClosed).Tx()
}()

// nest sets a savepoint in the caller's transaction and admits after it, so that a
// refusal leaves the rest of that transaction usable.
func (c *Call) nest(ctx context.Context, outer pgx.Tx, u *unit) (pgx.Tx, error) {
	inner, err := outer.Begin(ctx)
	if err != nil {
		return nil, NothingApplied(err)
	}
	c.db = inner
	if err := c.admit(ctx); err != nil {
		_ = rollback(ctx, inner)
		c.db = outer
		return nil, err
	}
	for _, q := range u.insertion() {
		if err := u.scan(inner.QueryRow(ctx, q.SQL, q.Args...)); err != nil {
			_ = rollback(ctx, inner)
			return nil, NothingApplied(fmt.Errorf("sqlguard: insert the unit: %w", err))
		}
	}
	return inner, nil
}

// Join admits the tokens in the caller's transaction.
func (c *Call) Join(ctx context.Context) error {
	c.at(stepStatement) // after the caller's reads
	if err := c.admit(ctx); err != nil {
		return guard.WithCause(ctx, err)
	}
	c.at(stepAdmitted)
	return nil
}

func (c *Call) admit(ctx context.Context) error {
	s, err := c.send(ctx, request{tx: callersTx})
	if err != nil {
		return err
	}
	return s.finish(nil)
}
