package sqlpoint

import (
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
)

// sqlite are SQLite's codes that say that nothing was applied: ERROR, BUSY,
// LOCKED, READONLY, INTERRUPT, FULL, CONSTRAINT.
var sqlite = []int{1, 5, 6, 8, 9, 13, 19}

// outside are classes of SQLSTATE that say nothing of what became of a COMMIT:
// the connection, the operator, the system, the server itself.
var outside = []string{"", "08", "57", "58", "XX"}

// refused reports whether err, of a COMMIT or of a statement outside of a
// transaction, is certain to mean that nothing was applied.
func refused(err error) bool {
	var (
		standard interface{ SQLState() string }
		coded    interface{ Code() int }
	)
	switch {
	case errors.Is(err, driver.ErrSkip):
		return true
	case errors.As(err, &standard):
		code := standard.SQLState()
		return !slices.Contains(outside, code[:min(2, len(code))])
	case errors.As(err, &coded):
		return slices.Contains(sqlite, coded.Code()&0xff) // without the extended part
	}
	return strings.Contains(err.Error(), "commit unexpectedly resulted in rollback") // pgx
}
