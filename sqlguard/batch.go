package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgwrite"
)

var (
	errBatchBegins = errors.New("sqlguard: a guarded batch already runs in a transaction: do not call BeginTx")
	errNoMore      = errors.New("sqlguard: no more results in batch")
)

// SendBatch runs a batch of statements in one guarded transaction and one round trip.
// Results and callbacks work as in pgx. Close must be called: it reads the reply to the
// COMMIT, and its error is the outcome of the batch. It may be called again and returns
// the same error. Users of sqlc's batches must do so, since the generated methods drop
// the error of their own Close. A callback's own error does not undo anything, so the
// outcome is [guard.ErrUnknown]. A batch with BeginTx is an error.
func (c Conn) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	s, err := c.sendBatch(ctx, b)
	if err != nil {
		c.guard.abort(ctx)
		return pgx.FailedBatchResults(b, err)
	}
	return &results{sent: s, body: b.QueuedQueries, read: checkedResults{BatchResults: s.Results}}
}

func (c Conn) sendBatch(ctx context.Context, b *pgx.Batch) (*pgwrite.Sent, error) {
	if pgx.FailedBatchResults(b, errBatchBegins).Tx() != nil {
		return nil, errBatchBegins
	}
	body := make([]pgwrite.Statement, len(b.QueuedQueries))
	for i, q := range b.QueuedQueries {
		if err := refuseTxControl(q.SQL); err != nil {
			return nil, err
		}
		// A copy: pgx rewrites a query in place for the connection it is sent on, and the
		// next attempt may use another connection. The callbacks are run by results.
		body[i] = guardedStatement(q.SQL, q.Arguments)
	}
	s, err := c.send(ctx, pgwrite.Batch{Body: body})
	if err == nil {
		s.WroteAll() // callbacks read the tags, so assume a write
	}
	return s, err
}

// results are the results of the body alone: the replies before it have been read, and
// Close reads the reply to the COMMIT after it.
type results struct {
	sent   *pgwrite.Sent
	body   []*pgx.QueuedQuery
	read   checkedResults
	next   int
	closed bool
	err    error
}

func (r *results) Exec() (pgconn.CommandTag, error) {
	if err := r.step(); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := r.read.Exec()
	return tag, pgwrite.NothingApplied(err)
}

func (r *results) Query() (pgx.Rows, error) {
	if err := r.step(); err != nil {
		return failedRows(err)
	}
	return r.read.Query()
}

func (r *results) QueryRow() pgx.Row {
	all, _ := r.Query()
	return row{all}
}

// Tx returns nil, as pgx does for a batch that does not begin a transaction.
func (r *results) Tx() pgx.Tx { return nil }

func (r *results) Close() error {
	if r.closed {
		return r.err
	}
	r.closed, r.err = true, pgwrite.ErrPanicked
	defer func() {
		if errors.Is(r.err, pgwrite.ErrPanicked) {
			r.sent.Discard(r.err)
		}
	}()
	var err error
	for err == nil && r.next < len(r.body) {
		err = r.call()
	}
	if r.read.closeRows(); r.read.ended {
		err = errTxEnded
	}
	r.err = r.sent.Finish(err)
	return r.err
}

// step moves to the next query of the body.
func (r *results) step() error {
	if r.closed || r.next == len(r.body) {
		return errNoMore
	}
	r.advance()
	return nil
}

func (r *results) advance() {
	r.read.closeRows()
	r.read.sql = r.body[r.next].SQL
	r.next++
}

// call reads the next result, with the query's callback if it has one.
func (r *results) call() error {
	fn := r.body[r.next].Fn
	r.advance()
	if fn == nil {
		_, err := r.read.Exec()
		return err
	}
	err := fn(&r.read)
	if err == nil || !r.sent.CommitFollows() {
		return err
	}
	// A server's error is returned again for the next result. If the next result is no
	// error, the error is the callback's own, and everything up to the COMMIT has run.
	if _, failed := r.sent.Results.Exec(); failed == nil {
		return &pgwrite.OutcomeError{Outcome: guard.ErrUnknown, Err: err}
	} else if pgwrite.SQLState(failed) != "" && pgwrite.SQLState(err) == "" {
		return errors.Join(err, failed)
	}
	return err
}

// checkedResults reads the results of a batch and records whether a command tag among
// them shows that the transaction has ended.
type checkedResults struct {
	pgx.BatchResults
	sql   string   // of the next result
	rows  pgx.Rows // of the last query; they have their tag once they are closed
	ended bool
}

func (w *checkedResults) Exec() (pgconn.CommandTag, error) {
	tag, err := w.BatchResults.Exec()
	w.ended = w.ended || tagEndsTx(tag.String(), w.sql)
	return tag, err
}

func (w *checkedResults) Query() (pgx.Rows, error) {
	rows, err := w.BatchResults.Query()
	w.rows = rows
	return rows, err
}

func (w *checkedResults) QueryRow() pgx.Row {
	all, _ := w.Query() // the rows have the error too
	return row{all}
}

func (w *checkedResults) closeRows() {
	if w.rows != nil {
		w.rows.Close()
		w.ended = w.ended || tagEndsTx(w.rows.CommandTag().String(), w.sql)
		w.rows = nil
	}
}
