package sqlguard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Conn runs statements as a *pgxpool.Pool does, each in a guarded transaction
// of its own: see [Guard.On]. It has the methods that sqlc's DBTX asks for, so
// that code generated for pgx/v5 is guarded unchanged:
//
//	q := db.New(g.On("account/42"))
//
// It is safe for concurrent use where the Guard is.
type Conn struct {
	guard    *Guard
	resource string
}

// On returns a Conn for resource, whose token each statement's context must
// carry. The admission and the statement are one packet and one transaction: the
// statement runs only where the token was admitted, and the error is nil only
// where the transaction was committed. That of a single query or change of rows
// is the packet's own; BEGIN and COMMIT are sent around everything else, in the
// simple protocol, and where Tx has options. Errors are as those of
// [Guard.Update]; the statement's own are pgx's, unchanged. Read-modify-write
// over two statements is safe only under a token that was claimed: see
// [Guard.Admit].
//
// The caller's end of ctx cuts the packet off ([guard.ErrUnknown]). The loss of
// the lease does not; it leaves the packet 30 s more.
//
// One call is one statement of any kind that may run inside a transaction: what
// must not (VACUUM), or ends it (a CALL whose procedure commits), fails with
// nothing applied. In the simple protocol, which alone lets several statements
// into one string, a COMMIT among them would end the admission: don't. pgx's
// option arguments ([pgx.QueryExecMode] and the like) are refused, since a
// batch has none; a [pgx.QueryRewriter] such as [pgx.NamedArgs] works. The
// name of a prepared statement works too; that of a CALL must not read like a
// query, "UPDATE a = 1" say.
//
// Where DB is a pgx.Tx, admission and statement are one packet of that
// transaction, and an error leaves it aborted. See [Guard.Join] for the rest.
func (g *Guard) On(resource string) Conn { return Conn{guard: g, resource: resource} }

// Exec runs a statement and returns its command tag.
func (c Conn) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	f, err := c.run(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := f.results.Exec()
	f.wrote = wrote(ctx, tag)
	if err = f.end(err); err != nil {
		return pgconn.CommandTag{}, err
	}
	return tag, nil
}

// CopyFrom copies rows into a table as [pgx.Conn.CopyFrom] does, in a
// transaction of [Guard.Update]: COPY cannot share its packet with others.
func (c Conn) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (n int64, err error) {
	err = c.guard.Update(ctx, c.resource, func(tx pgx.Tx) error {
		n, err = tx.CopyFrom(ctx, table, columns, src)
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (c Conn) run(ctx context.Context, sql string, args []any) (*flight, error) {
	if err := refuseEnd(sql); err != nil {
		return nil, err
	}
	if err := refuseOptions(args); err != nil {
		return nil, err
	}
	body := []*pgx.QueuedQuery{{SQL: sql, Arguments: args}}
	return c.send(ctx, packet{body: body, bare: isBare(c.guard.Tx, sql, args)})
}

func (c Conn) send(ctx context.Context, p packet) (*flight, error) {
	g := c.guard
	if g.Tx.AccessMode == pgx.ReadOnly {
		return nil, errReadOnly
	}
	one, err := g.call(ctx, g.DB, c.resource)
	if err != nil {
		return nil, err
	}
	p.begin, p.commit = &g.Tx, commitSQL
	if g.Tx.CommitQuery != "" {
		p.commit = g.Tx.CommitQuery
	}
	wait := int32(claimed)
	if _, ok := transaction(g.DB); ok {
		p.begin, p.commit, p.bare, wait = nil, "", false, one.bound()
	}
	return one.by(one.stmts.admit, wait).fly(ctx, p)
}

// refuseOptions looks where pgx does, before the first real argument. Sent in
// a batch they would be taken for values.
func refuseOptions(args []any) error {
	for _, arg := range args {
		switch arg.(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return fmt.Errorf("sqlguard: a guarded statement takes no %T: set it on the connection", arg)
		case pgx.QueryRewriter:
		default:
			return nil
		}
	}
	return nil
}
