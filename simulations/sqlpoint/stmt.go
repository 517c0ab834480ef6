package sqlpoint

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// stmt is a prepared statement.
type stmt struct {
	preparedStmt
	conn *conn
	text string
}

// preparedStmt is what a driver's statement must have.
type preparedStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func (c *conn) prepared(text string, base driver.Stmt, err error) (driver.Stmt, error) {
	if err != nil {
		return nil, err
	}
	s, ok := base.(preparedStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("sqlpoint: %T has no ExecContext and QueryContext", base), base.Close())
	}
	return &stmt{s, c, text}, nil
}

func (s *stmt) CheckNamedValue(value *driver.NamedValue) error {
	if base, ok := s.preparedStmt.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(value)
	}
	return s.conn.CheckNamedValue(value) // as database/sql does
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.exec(ctx, s.text, func() (driver.Result, error) { return s.preparedStmt.ExecContext(ctx, args) })
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, s.text, func() (driver.Rows, error) { return s.preparedStmt.QueryContext(ctx, args) })
}

// rows are the rows of a statement outside of a transaction. If the driver's rows lack an
// optional interface, they return what database/sql assumes then.
type rows struct {
	driver.Rows
	done func(err error) error
	err  error // the last error of Next
}

var (
	_ driver.RowsNextResultSet              = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeLength           = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypePrecisionScale   = (*rows)(nil)
)

func (r *rows) Close() error {
	err := r.Rows.Close()
	if r.done == nil {
		return err
	}
	done := r.done
	if r.done = nil; r.err != nil {
		_ = done(r.err)
		return err
	}
	return done(err)
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return err
}

func (r *rows) HasNextResultSet() bool {
	base, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && base.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if base, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return base.NextResultSet()
	}
	return io.EOF
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if base, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return base.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if base, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return base.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if base, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return base.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if base, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return base.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if base, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return base.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
