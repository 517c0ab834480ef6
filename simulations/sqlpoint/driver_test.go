package sqlpoint_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// bare is a driver that has nothing but what it must, and writes down its calls.
type bare struct {
	calls []string
	fail  map[string]error // by call
}

func (b *bare) call(name string, args ...any) error {
	b.calls = append(b.calls, fmt.Sprint(append([]any{name}, args...)...))
	return b.fail[name]
}

func (b *bare) Open(string) (driver.Conn, error)             { return &bareConn{b}, b.call("Open") }
func (b *bare) Driver() driver.Driver                        { return b }
func (b *bare) Connect(context.Context) (driver.Conn, error) { return &bareConn{b}, b.call("Connect") }

type bareConn struct{ *bare }

func (c *bareConn) Prepare(query string) (driver.Stmt, error) {
	return &bareStmt{c.bare}, c.call("Prepare", query)
}
func (c *bareConn) Close() error              { return c.call("Close") }
func (c *bareConn) Begin() (driver.Tx, error) { return &bareTx{c.bare}, c.call("Begin") }

type bareTx struct{ *bare }

func (t *bareTx) Commit() error   { return t.call("Commit") }
func (t *bareTx) Rollback() error { return t.call("Rollback") }

type bareStmt struct{ *bare }

func (s *bareStmt) Close() error  { return s.call("Stmt.Close") }
func (s *bareStmt) NumInput() int { return -1 }
func (s *bareStmt) Exec(args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.call("Stmt.Exec", args)
}
func (s *bareStmt) Query(args []driver.Value) (driver.Rows, error) {
	return &bareRows{bare: s.bare}, s.call("Stmt.Query", args)
}

// bareRows are one row.
type bareRows struct {
	*bare
	read bool
}

func (r *bareRows) Columns() []string { return []string{"a"} }
func (r *bareRows) Close() error      { return r.call("Rows.Close") }
func (r *bareRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, dest[0] = true, int64(7)
	return r.call("Rows.Next")
}

// old is one with the deprecated interfaces.
type old struct{ bare }

func (o *old) Connect(context.Context) (driver.Conn, error) {
	return &oldConn{bareConn{&o.bare}}, nil
}

type oldConn struct{ bareConn }

func (c *oldConn) Exec(query string, args []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), c.call("Exec", query, args)
}
func (c *oldConn) Query(query string, args []driver.Value) (driver.Rows, error) {
	return &bareRows{bare: c.bare}, c.call("Query", query, args)
}
func (c *oldConn) Prepare(query string) (driver.Stmt, error) {
	return &oldStmt{bareStmt{c.bare}}, c.call("Prepare", query)
}

// half is one that can only execute without preparing, or only query.
type half struct {
	bare
	queries bool
}

func (h *half) Connect(context.Context) (driver.Conn, error) {
	if h.queries {
		return struct {
			*bareConn
			driver.Queryer
		}{&bareConn{&h.bare}, &oldConn{bareConn{&h.bare}}}, nil
	}
	return struct {
		*bareConn
		driver.Execer
	}{&bareConn{&h.bare}, &oldConn{bareConn{&h.bare}}}, nil
}

type oldStmt struct{ bareStmt }

func (s *oldStmt) NumInput() int                             { return 1 }
func (s *oldStmt) ColumnConverter(int) driver.ValueConverter { return doubling{} }

type doubling struct{}

func (doubling) ConvertValue(v any) (driver.Value, error) {
	return driver.String.ConvertValue(fmt.Sprint(v, v))
}

// full is one with everything.
type full struct{ bare }

func (f *full) Close() error { return f.call("Connector.Close") }
func (f *full) Connect(context.Context) (driver.Conn, error) {
	return &fullConn{bareConn{&f.bare}}, f.call("Connect")
}

type fullConn struct{ bareConn }

func (c *fullConn) Ping(context.Context) error         { return c.call("Ping") }
func (c *fullConn) ResetSession(context.Context) error { return c.call("ResetSession") }
func (c *fullConn) IsValid() bool                      { return c.call("IsValid") == nil }
func (c *fullConn) CheckNamedValue(v *driver.NamedValue) error {
	if _, ok := v.Value.(special); ok {
		v.Value = "special"
	}
	return c.call("CheckNamedValue", v.Value)
}
func (c *fullConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.call("ExecContext", query, args)
}
func (c *fullConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return &fullRows{bareRows: bareRows{bare: c.bare}}, c.call("QueryContext", query, args)
}
func (c *fullConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &fullStmt{bareStmt{c.bare}}, c.call("PrepareContext", query)
}
func (c *fullConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return &bareTx{c.bare}, c.call("BeginTx", opts)
}

// special is a value that only a driver of its own understands.
type special struct{ _ []int }

type fullStmt struct{ bareStmt }

func (s *fullStmt) CheckNamedValue(v *driver.NamedValue) error {
	return s.call("Stmt.CheckNamedValue", v.Name)
}
func (s *fullStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.call("Stmt.ExecContext", len(args))
}
func (s *fullStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return &fullRows{bareRows: bareRows{bare: s.bare}}, s.call("Stmt.QueryContext", len(args))
}

type fullRows struct {
	bareRows
	second bool
}

func (r *fullRows) HasNextResultSet() bool { return !r.second }
func (r *fullRows) NextResultSet() error {
	r.second, r.read = true, false
	return r.call("NextResultSet")
}
func (r *fullRows) ColumnTypeScanType(int) reflect.Type               { return reflect.TypeFor[int8]() }
func (r *fullRows) ColumnTypeDatabaseTypeName(int) string             { return "SEVEN" }
func (r *fullRows) ColumnTypeLength(int) (int64, bool)                { return 77, true }
func (r *fullRows) ColumnTypeNullable(int) (nullable, ok bool)        { return true, true }
func (r *fullRows) ColumnTypePrecisionScale(int) (int64, int64, bool) { return 7, 8, true }

var errBroken = errors.New("broken")
