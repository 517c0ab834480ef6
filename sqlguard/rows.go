package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencepost/fencepost/guard"
)

// Query runs a statement that returns rows. They must be closed, which reading
// them to their end does. The commit's answer is read when they are closed: only
// then does Err say what became of the statement. Unlike that one, an error while
// scanning leaves it open ([guard.ErrUnknown]): the statement was most
// likely applied, as it would be without a guard.
func (c Conn) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	f, err := c.run(ctx, sql, args)
	if err != nil {
		return failedRows(err)
	}
	inner, err := f.results.Query()
	if err != nil {
		return failedRows(f.end(err))
	}
	f.begun = true
	return &rows{Rows: inner, flight: f}, nil
}

// QueryRow runs a statement that returns a row. Its errors come with Scan,
// which must be called; [pgx.ErrNoRows] means that the statement was committed.
func (c Conn) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	all, _ := c.Query(ctx, sql, args...) // the error is in the rows too
	return row{all}
}

// failedRows are pgx's own for an error that came before any row.
func failedRows(err error) (pgx.Rows, error) {
	return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
}

// rows are those of a statement whose COMMIT is in the same packet.
type rows struct {
	pgx.Rows
	flight *flight
	closed bool
	err    error
}

func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	r.flight.wrote = wrote(r.flight.caller, r.Rows.CommandTag())
	r.err = r.flight.end(r.Rows.Err())
}

func (r *rows) Err() error {
	if r.closed {
		return r.err
	}
	return r.Rows.Err()
}

func (r *rows) Next() bool {
	if !r.closed && r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *rows) Scan(dest ...any) error {
	if err := r.Rows.Scan(dest...); err != nil {
		r.Close() // pgx has closed its own
		return r.Err()
	}
	return nil
}

func (r *rows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
		return nil, r.Err()
	}
	return values, nil
}

// row is the first of the rows.
type row struct{ rows pgx.Rows }

// unscanned says of an error of our own that the statement has run.
func (r row) unscanned(err error) error {
	if all, ok := r.rows.(*rows); ok && all.flight.commits {
		return &verdict{guard.ErrUnknown, err}
	}
	return err
}

func (r row) Scan(dest ...any) error {
	defer r.rows.Close() // also where a scanner panics
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // it would point into memory that Close frees
			return r.unscanned(errors.New("sqlguard: cannot scan into *pgtype.DriverBytes from QueryRow"))
		}
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
