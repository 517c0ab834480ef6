package sqlpoint

import (
	"context"
	"database/sql/driver"
)

// stmt is a prepared statement.
type stmt struct {
	driver.Stmt
	conn *conn
	text string
}

// converting is one with the deprecated interface, which database/sql takes for
// more than the lack of it.
type converting struct {
	*stmt
	base driver.ColumnConverter //nolint:staticcheck // deprecated, and still obeyed by database/sql
}

func (c *converting) ColumnConverter(i int) driver.ValueConverter { return c.base.ColumnConverter(i) }

func (c *conn) prepared(text string, base driver.Stmt, err error) (driver.Stmt, error) {
	if err != nil {
		return nil, err
	}
	s := &stmt{Stmt: base, conn: c, text: text}
	if converter, ok := base.(driver.ColumnConverter); ok { //nolint:staticcheck // as above
		return &converting{s, converter}, nil
	}
	return s, nil
}

func (s *stmt) CheckNamedValue(value *driver.NamedValue) error {
	if base, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(value)
	}
	return s.conn.CheckNamedValue(value) // as database/sql does
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if base, ok := s.Stmt.(driver.StmtExecContext); ok {
		return s.conn.exec(ctx, s.text, func() (driver.Result, error) { return base.ExecContext(ctx, args) })
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.conn.exec(ctx, s.text, func() (driver.Result, error) {
		return s.Exec(values)
	})
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if base, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return s.conn.query(ctx, s.text, func() (driver.Rows, error) { return base.QueryContext(ctx, args) })
	}
	values, err := positional(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.conn.query(ctx, s.text, func() (driver.Rows, error) {
		return s.Query(values)
	})
}
