package pgwrite

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/writectx"
)

// Exec sends a statement that is a transaction by itself, without an admission, and
// returns how many rows it has written. The driver's Exec is 5 % cheaper than a batch of
// one.
func (c *Call) Exec(ctx context.Context, sql string, args ...any) (int64, error) {
	inner, stop, err := writectx.Start(ctx)
	if err != nil {
		return 0, notSent(err)
	}
	defer stop()
	c.at(stepBegin)
	tag, unknown, err := c.exec(c.reportedSteps(inner), sql, args)
	switch {
	case unknown:
		c.at(stepUnknown)
		err = &OutcomeError{guard.ErrUnknown, err}
	case err == nil && tag.RowsAffected() > 0:
		c.at(stepApplied)
	default:
		c.at(stepUndone)
	}
	return tag.RowsAffected(), guard.WithCause(ctx, NothingApplied(err))
}

// exec also reports whether err leaves it unknown if the statement was applied. That
// depends on whether the connection is closed, so it is tested before the pool has the
// connection back: an error of pgx itself, for example about an argument, keeps it open.
// For a DB of another kind only SendBatch is known to use the right connection.
func (c *Call) exec(ctx context.Context, sql string, args []any) (tag pgconn.CommandTag, unknown bool, err error) {
	over, err := c.connect(ctx)
	if err != nil {
		return tag, false, err
	}
	defer over.giveBack()
	if over.conn != nil {
		tag, err = over.conn.Exec(ctx, sql, args...)
		if err == nil && tag.RowsAffected() > 0 {
			err = c.dropReply(over.conn)
		}
		return tag, ambiguous(err) && (over.conn.IsClosed() || SQLState(err) != ""), err
	}
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	results := over.db.SendBatch(ctx, b)
	tag, err = results.Exec()
	if e := results.Close(); err == nil { // a deferred constraint fails here
		err = e
	}
	return tag, ambiguous(err) && !errors.As(err, new(pgx.ErrPreprocessingBatch)), err
}

// QueryRow sends a query that writes nothing, without an admission, and scans its one
// row.
func (c *Call) QueryRow(ctx context.Context, sql string, args []any, dest ...any) error {
	ctx, stop := writectx.New(ctx)
	defer stop()
	if !c.InTx() {
		ctx = c.reportedSteps(ctx)
	}
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	results := c.db.SendBatch(ctx, b)
	err := results.QueryRow().Scan(dest...)
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}
