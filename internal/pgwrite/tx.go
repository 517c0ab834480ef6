package pgwrite

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/writectx"
)

// Update runs fn in a transaction after the admission, and commits it. In the caller's
// transaction fn runs after a savepoint.
func (c *Call) Update(ctx context.Context, fn func(tx pgx.Tx) error) error {
	tx, over, err := c.begin(ctx)
	if err != nil {
		return err
	}
	return guard.WithCause(ctx, c.run(ctx, tx, over, fn))
}

// run calls fn, ends tx and gives its session back, even if fn panics.
func (c *Call) run(ctx context.Context, tx pgx.Tx, over session, fn func(tx pgx.Tx) error) error {
	end := stepUndone
	defer func() {
		if end != stepApplied { // after a COMMIT the connection is returned already
			rollback(ctx, tx)
		}
		over.giveBack()
		c.at(ctx, end)
	}()
	begun := time.Now()
	c.at(ctx, stepAdmitted)
	if err := fn(tx); err != nil {
		return NothingApplied(err)
	}
	c.at(ctx, stepCommit)
	err := c.commit(ctx, tx, begun)
	end = lastStep(err)
	return err
}

func (c *Call) begin(ctx context.Context) (pgx.Tx, session, error) {
	if outer, ok := c.db.(pgx.Tx); ok {
		tx, err := c.nest(ctx, outer)
		return tx, session{}, err
	}
	s, err := c.send(ctx, request{tx: openTx})
	if err != nil {
		return nil, session{}, err
	}
	if err := s.Results.Close(); err != nil {
		return nil, session{}, s.fail(s.wrap(err))
	}
	s.stop()
	return s.tx, s.session, nil
}

// nest sets a savepoint in the caller's transaction and admits after it, so that a
// refusal leaves the rest of that transaction usable.
func (c *Call) nest(ctx context.Context, outer pgx.Tx) (pgx.Tx, error) {
	inner, err := outer.Begin(ctx)
	if err != nil {
		return nil, guard.WithCause(ctx, NothingApplied(err))
	}
	c.db = inner
	if err := c.admit(ctx); err != nil {
		rollback(ctx, inner)
		return nil, err
	}
	return inner, nil
}

// Join admits the tokens in the caller's transaction.
func (c *Call) Join(ctx context.Context) error {
	c.at(ctx, stepStatement) // after the caller's reads
	if err := c.admit(ctx); err != nil {
		return err
	}
	c.at(ctx, stepAdmitted)
	return nil
}

func (c *Call) admit(ctx context.Context) error {
	s, err := c.send(ctx, request{tx: callersTx})
	if err != nil {
		return err
	}
	return s.Finish(nil)
}

// abortSQL fails in every transaction, on every server to which a pooler may send it, and
// changes nothing. The savepoint does not exist.
const abortSQL = `ROLLBACK TO SAVEPOINT "sqlguard: the transaction was not admitted"`

// Abort makes the server refuse every later statement in db up to its end or a ROLLBACK
// TO, if db is the caller's transaction. It is for an error that occurred before anything
// was sent. If the connection cannot send the statement, for example because the caller
// has unread rows, it is closed. In report-only mode nothing is aborted.
func Abort(ctx context.Context, config *Config, db DB) {
	tx, inTx := db.(pgx.Tx)
	if !inTx || config.simulated(ctx).DangerouslyReportOnly {
		return
	}
	conn := tx.Conn()
	if conn != nil && (conn.IsClosed() || conn.PgConn().TxStatus() == 'E') {
		return
	}
	ctx, cancel := writectx.ForCleanup(ctx)
	defer cancel()
	_, err := tx.Exec(ctx, abortSQL)
	if conn != nil && SQLState(err) == "" && !errors.Is(err, pgx.ErrTxClosed) {
		_ = conn.PgConn().Conn().Close()
	}
}
