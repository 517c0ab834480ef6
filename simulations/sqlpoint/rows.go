package sqlpoint

import (
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// rows are those of a statement outside of a transaction. Where the driver's own
// lack an optional interface, they answer what database/sql assumes then.
type rows struct {
	driver.Rows
	done func(err error)
	err  error // of Next
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
		done(r.err)
	} else {
		done(err)
	}
	return err
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
