package sqlpoint_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// minimal is a driver with what the wrapper needs only. It records its calls.
type minimal struct {
	calls []string
	fail  map[string]error // by call
}

func (b *minimal) call(name string, args ...any) error {
	b.calls = append(b.calls, fmt.Sprint(append([]any{name}, args...)...))
	return b.fail[name]
}

func (b *minimal) Open(string) (driver.Conn, error) { return &minimalConn{b}, b.call("Open") }
func (b *minimal) Driver() driver.Driver            { return b }
func (b *minimal) Connect(context.Context) (driver.Conn, error) {
	return &minimalConn{b}, b.call("Connect")
}

type minimalConn struct{ *minimal }

func (c *minimalConn) Prepare(query string) (driver.Stmt, error) {
	return &minimalStmt{c.minimal}, c.call("Prepare", query)
}
func (c *minimalConn) Close() error              { return c.call("Close") }
func (c *minimalConn) Begin() (driver.Tx, error) { return nil, c.call("Begin") }
func (c *minimalConn) BeginTx(_ context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return &minimalTx{c.minimal}, c.call("BeginTx", opts)
}

type minimalTx struct{ *minimal }

func (t *minimalTx) Commit() error   { return t.call("Commit") }
func (t *minimalTx) Rollback() error { return t.call("Rollback") }

type minimalStmt struct{ *minimal }

func (s *minimalStmt) Close() error                               { return s.call("Stmt.Close") }
func (s *minimalStmt) NumInput() int                              { return -1 }
func (s *minimalStmt) Exec([]driver.Value) (driver.Result, error) { return nil, s.call("Stmt.Exec") }
func (s *minimalStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, s.call("Stmt.Query") }
func (s *minimalStmt) ExecContext(_ context.Context, args []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.call("Stmt.ExecContext", args)
}
func (s *minimalStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return &minimalRows{minimal: s.minimal}, s.call("Stmt.QueryContext", args)
}

// minimalRows are one row.
type minimalRows struct {
	*minimal
	read bool
}

func (r *minimalRows) Columns() []string { return []string{"a"} }
func (r *minimalRows) Close() error      { return r.call("Rows.Close") }
func (r *minimalRows) Next(dest []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, dest[0] = true, int64(7)
	return r.call("Rows.Next")
}

// half can only execute, or only query, without preparing.
type half struct {
	minimal
	queries bool
}

func (h *half) Connect(context.Context) (driver.Conn, error) {
	least, most := &minimalConn{&h.minimal}, &fullConn{minimalConn{&h.minimal}}
	if h.queries {
		return struct {
			*minimalConn
			driver.QueryerContext
		}{least, most}, nil
	}
	return struct {
		*minimalConn
		driver.ExecerContext
	}{least, most}, nil
}

// old is a driver without contexts for connections or, if it begins, for statements.
type old struct {
	minimal
	begins bool
}

func (o *old) Connect(context.Context) (driver.Conn, error) {
	c := struct{ driver.Conn }{&oldConn{minimalConn{&o.minimal}}}
	if o.begins {
		return c.Conn, nil
	}
	return c, nil
}

type oldConn struct{ minimalConn }

func (c *oldConn) Prepare(query string) (driver.Stmt, error) {
	return struct{ driver.Stmt }{&minimalStmt{c.minimal}}, c.call("Prepare", query)
}

// full has every optional interface that is not deprecated.
type full struct{ minimal }

func (f *full) Close() error { return f.call("Connector.Close") }
func (f *full) Connect(context.Context) (driver.Conn, error) {
	return &fullConn{minimalConn{&f.minimal}}, f.call("Connect")
}

type fullConn struct{ minimalConn }

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
	return &fullRows{minimalRows: minimalRows{minimal: c.minimal}}, c.call("QueryContext", query, args)
}
func (c *fullConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return &fullStmt{minimalStmt{c.minimal}}, c.call("PrepareContext", query)
}

// special is a value that only one driver accepts.
type special struct{ _ []int }

type fullStmt struct{ minimalStmt }

func (s *fullStmt) CheckNamedValue(v *driver.NamedValue) error {
	return s.call("Stmt.CheckNamedValue", v.Name)
}
func (s *fullStmt) QueryContext(_ context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return &fullRows{minimalRows: minimalRows{minimal: s.minimal}}, s.call("Stmt.QueryContext", args)
}

type fullRows struct {
	minimalRows
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
