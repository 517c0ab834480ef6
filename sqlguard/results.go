package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
)

var (
	errBatchBegins = errors.New("sqlguard: a guarded batch is a transaction already: leave out BeginTx")
	errPanicked    = errors.New("sqlguard: a callback or observer panicked")
	errNoMore      = errors.New("sqlguard: no more results in batch")
)

// SendBatch runs a batch of statements in one guarded transaction, one packet
// like the others. Results and callbacks are as pgx has them. The COMMIT is
// read by Close, which must be called and whose error says what became of the
// batch; it is safe to call again, which whoever uses sqlc's batches has to do,
// since their generated methods pass over that error. A callback's own error
// comes too late to undo anything: it leaves the outcome open
// ([guard.ErrUnknown]). A batch with BeginTx is an error.
func (c Conn) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if pgx.FailedBatchResults(b, errBatchBegins).Tx() != nil {
		return pgx.FailedBatchResults(b, errBatchBegins)
	}
	for _, q := range b.QueuedQueries {
		if err := refuseEnd(q.SQL); err != nil {
			return pgx.FailedBatchResults(b, err)
		}
	}
	f, err := c.send(ctx, packet{body: b.QueuedQueries})
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	f.wrote = true // whatever is in it: its callbacks read the tags
	return &results{flight: f, body: b.QueuedQueries}
}

// results are those of the body alone: what stands before it has been read,
// and the COMMIT behind it is Close's.
type results struct {
	flight *flight
	body   []*pgx.QueuedQuery
	next   int
	closed bool
	err    error
}

func (r *results) Exec() (pgconn.CommandTag, error) {
	if err := r.step(); err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := r.flight.results.Exec()
	return tag, nothingApplied(err)
}

func (r *results) Query() (pgx.Rows, error) {
	if err := r.step(); err != nil {
		return failedRows(err)
	}
	return r.flight.results.Query()
}

func (r *results) QueryRow() pgx.Row {
	all, _ := r.Query()
	return row{all}
}

// Tx is pgx's for a batch that does not begin a transaction.
func (r *results) Tx() pgx.Tx { return nil }

func (r *results) Close() error {
	if r.closed {
		return r.err
	}
	r.closed, r.err = true, errPanicked
	defer func() {
		if errors.Is(r.err, errPanicked) {
			r.flight.drop(r.err)
		}
	}()
	var err error
	for err == nil && r.next < len(r.body) {
		err = r.call()
	}
	r.err = r.flight.end(err)
	return r.err
}

// step moves to the next query of the body.
func (r *results) step() error {
	if r.closed || r.next == len(r.body) {
		return errNoMore
	}
	r.next++
	return nil
}

// call reads the next result, by the query's callback if it has one.
func (r *results) call() error {
	fn := r.body[r.next].Fn
	r.next++
	if fn == nil {
		_, err := r.flight.results.Exec()
		return err
	}
	err := fn(r.flight.results)
	if err == nil || !r.flight.commits {
		return err
	}
	// Whose error was it? The server's is met again at the next result; behind
	// the callback's own, everything up to the COMMIT has run.
	if _, failed := r.flight.results.Exec(); failed == nil {
		return &verdict{guard.ErrUnknown, err}
	} else if sqlState(failed) != "" && sqlState(err) == "" {
		return errors.Join(err, failed)
	}
	return err
}
