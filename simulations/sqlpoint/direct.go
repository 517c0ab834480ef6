package sqlpoint

import (
	"context"
	"database/sql/driver"
)

// direct returns c with the methods for statements that are not prepared, as far
// as the driver's own has them. Had it one too many, that answers
// [driver.ErrSkip], the arguments would be checked before their statement is
// there, which may know better.
func direct(c *conn) driver.Conn {
	_, executes := c.Conn.(driver.ExecerContext)
	if !executes {
		_, executes = c.Conn.(driver.Execer) //nolint:staticcheck // deprecated, and still obeyed by database/sql
	}
	_, queries := c.Conn.(driver.QueryerContext)
	if !queries {
		_, queries = c.Conn.(driver.Queryer) //nolint:staticcheck // as above
	}
	switch {
	case executes && queries:
		return &both{c, execer{c}, queryer{c}}
	case executes:
		return &execer{c}
	case queries:
		return &queryer{c}
	}
	return c
}

type (
	execer  struct{ *conn }
	queryer struct{ *conn }
	both    struct {
		*conn
		execer
		queryer
	}
)

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if base, ok := e.Conn.(driver.ExecerContext); ok {
		return e.exec(ctx, query, func() (driver.Result, error) { return base.ExecContext(ctx, query, args) })
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	base := e.Conn.(driver.Execer) //nolint:staticcheck // as above
	return e.exec(ctx, query, func() (driver.Result, error) { return base.Exec(query, values) })
}

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if base, ok := q.Conn.(driver.QueryerContext); ok {
		return q.query(ctx, query, func() (driver.Rows, error) { return base.QueryContext(ctx, query, args) })
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	base := q.Conn.(driver.Queryer) //nolint:staticcheck // as above
	return q.query(ctx, query, func() (driver.Rows, error) { return base.Query(query, values) })
}
