package sqlguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgwrite"
)

// Conn runs each statement in a guarded transaction of its own: see [Guard.On]. It has
// the methods of *pgxpool.Pool that sqlc's DBTX requires, so code that sqlc generated for
// pgx/v5 is guarded unchanged:
//
//	q := db.New(g.On("account/42"))
//
// It is safe for concurrent use if the Guard is.
type Conn struct {
	guard    *Guard
	resource string
}

// On returns a Conn for resource. The context of each statement must carry the resource's
// token. The admission and the statement are one round trip and one transaction: the
// statement runs only if the token was admitted, and the error is nil only if the
// transaction was committed. A single query, INSERT, UPDATE, DELETE or MERGE runs in the
// implicit transaction of its batch. BEGIN and COMMIT are sent around everything else, in
// the simple protocol, and if Tx has options.
//
// The errors are those of [Guard.Update]. Errors of the statement itself are pgx's,
// unchanged. A read-modify-write in two statements is safe only under a token that was
// claimed: see [Guard.Admit]. If ctx ends, the batch is cut off ([guard.ErrUnknown]). If
// the lease is lost, the batch may take 30 s more.
//
// One call is one statement of any kind that may run inside a transaction. A statement
// that may not (VACUUM), or that ends it (COMMIT, a CALL whose procedure commits), fails
// with nothing applied. A string with several statements is an error before anything is
// sent, in every exec mode; a CREATE FUNCTION with a body in BEGIN ATOMIC counts as
// several. pgx's option arguments ([pgx.QueryExecMode] and the like) are refused, since a
// batch has none. A [pgx.QueryRewriter] such as [pgx.NamedArgs] works.
//
// The name of a prepared statement works too. If the prepared statement ends the
// transaction, its command tag shows that, and the error is [guard.ErrUnknown]. The name
// of a prepared CALL must not read like a query, for example "UPDATE a = 1".
//
// If DB is a pgx.Tx, the admission and the statement are one batch of that transaction,
// and any error leaves it aborted, even an error before anything was sent. An error of
// the caller's own Scan or callback does not abort it, since the statement has run by
// then. See [Guard.Join] for the rest.
func (g *Guard) On(resource string) Conn { return Conn{guard: g, resource: resource} }

// Exec runs a statement and returns its command tag.
func (c Conn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	s, err := c.run(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := s.Results.Exec()
	s.Wrote(tag)
	if err = s.Finish(checkTag(tag, sql, err)); err != nil {
		return pgconn.CommandTag{}, err
	}
	return tag, nil
}

// CopyFrom copies rows into a table as [pgx.Conn.CopyFrom] does, in a transaction of
// [Guard.Update], since COPY cannot share a batch with other statements.
func (c Conn) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (n int64, err error) {
	err = c.guard.Update(ctx, c.resource, func(tx pgx.Tx) error {
		n, err = tx.CopyFrom(ctx, table, columns, src)
		return err
	})
	if err != nil {
		c.guard.abort(ctx)
		return 0, err
	}
	return n, nil
}

// abort aborts the caller's transaction, if DB is one, after an error that occurred
// before anything was sent.
func (g *Guard) abort(ctx context.Context) { pgwrite.Abort(ctx, g.config(), g.DB) }

func (c Conn) run(ctx context.Context, sql string, args []any) (_ *pgwrite.Sent, err error) {
	defer func() {
		if err != nil {
			c.guard.abort(ctx)
		}
	}()
	if err := refuseTxControl(sql); err != nil {
		return nil, err
	}
	if err := refuseOptions(args); err != nil {
		return nil, err
	}
	return c.send(ctx, pgwrite.Batch{Body: []pgwrite.Statement{guardedStatement(sql, args)}, Implicit: allowsImplicit(sql, args)})
}

func (c Conn) send(ctx context.Context, b pgwrite.Batch) (*pgwrite.Sent, error) {
	g := c.guard
	if err := g.config().CheckWritable(); err != nil {
		return nil, err
	}
	one, err := g.call(ctx, g.DB, c.resource)
	if err != nil {
		return nil, err
	}
	b.Unbounded = true
	return one.Write(ctx, b)
}

// refuseOptions checks the arguments before the first real one, as pgx does. In a batch
// pgx would send options as values.
func refuseOptions(args []any) error {
	for _, arg := range args {
		switch arg.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return fmt.Errorf("sqlguard: a guarded statement takes no %T: set the option on the connection", arg)
		case pgx.QueryRewriter:
		default:
			return nil
		}
	}
	return nil
}

// allowsImplicit reports whether a statement may run in an implicit transaction. A CALL
// or DO must not: it may commit there, and what follows its COMMIT would run without the
// admission.
func allowsImplicit(sql string, args []any) bool {
	for _, arg := range args {
		switch arg.(type) {
		case pgx.NamedArgs, pgx.StrictNamedArgs: // these leave the verb unchanged
			continue
		case pgx.QueryRewriter:
			return false
		}
		break
	}
	return cannotCommit(sql)
}

// Query runs a statement that returns rows. The rows must be closed; reading them to the
// end closes them. Close reads the reply to the COMMIT, so only Err after Close returns
// the outcome. After an error while scanning the outcome is [guard.ErrUnknown]: the
// statement was most likely applied, as it would be without a guard.
func (c Conn) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s, err := c.run(ctx, sql, args)
	if err != nil {
		return failedRows(err)
	}
	inner, err := s.Query()
	if err != nil {
		return failedRows(err)
	}
	return &rows{Rows: inner, sent: s, sql: sql}, nil
}

// QueryRow runs a statement that returns a row. Scan must be called, and returns all
// errors. [pgx.ErrNoRows] means that the statement was committed.
func (c Conn) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	all, _ := c.Query(ctx, sql, args...) // the rows have the error too
	return row{all}
}

// failedRows returns pgx's own rows for an error that occurred before any row.
func failedRows(err error) (pgx.Rows, error) {
	return pgx.FailedBatchResults(&pgx.Batch{}, err).Query()
}

// rows are the rows of a statement whose COMMIT is in the same batch.
type rows struct {
	pgx.Rows
	sent   *pgwrite.Sent
	sql    string
	closed bool
	err    error
}

func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	tag := r.Rows.CommandTag()
	r.sent.Wrote(tag)
	r.err = r.sent.Finish(checkTag(tag, r.sql, r.Rows.Err()))
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
		r.Close() // pgx has closed its own rows
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

// row is the first row of rows.
type row struct{ rows pgx.Rows }

// unscanned adds to an error of our own that the statement has run.
func (r row) unscanned(err error) error {
	if all, ok := r.rows.(*rows); ok && all.sent.CommitFollows() {
		return &pgwrite.OutcomeError{Outcome: guard.ErrUnknown, Err: err}
	}
	return err
}

func (r row) Scan(dest ...any) error {
	defer r.rows.Close() // also if a scanner panics
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok { // it would refer to memory that Close frees
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
