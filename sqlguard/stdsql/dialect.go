package stdsql

import (
	"context"
	"errors"
	"strings"

	_ "embed"
)

// dialect is what differs between databases.
type dialect struct {
	admit, mark string // statements
	// busy tells that another transaction was in the way of a statement.
	busy func(err error) bool
	// missing tells that the table of marks is not there.
	missing func(err error) bool
	// violated tells that a constraint was, so that COMMIT did nothing.
	violated func(err error) bool
	// none tells, of what ROLLBACK answered, that no transaction was open.
	none func(err error) bool
	// cut tells of a statement that it did not run to its end because its
	// context ended, which may have ended the transaction with it.
	cut func(err error) bool
}

var (
	//go:embed sqlite_admit.sql
	sqliteAdmit string
	//go:embed sqlite_mark.sql
	sqliteMark string
)

// sqlite goes by the texts of sqlite3_errstr and of SQLite's own messages. The
// drivers' error types have nothing else in common: a method Code() int in one,
// fields in another, a type of its own in a third. And fn's errors come here
// too, whose codes may be anything.
var sqlite = dialect{
	admit:    sqliteAdmit,
	mark:     sqliteMark,
	busy:     says("database is locked", "database table is locked", "database schema is locked"),
	missing:  says("no such table: fencepost_marks"),
	violated: says("constraint failed"),
	none:     says("no transaction is active"),
	cut: func(err error) bool {
		return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || says("interrupted")(err)
	},
}

func says(texts ...string) func(err error) bool {
	return func(err error) bool {
		for _, text := range texts {
			if err != nil && strings.Contains(err.Error(), text) {
				return true
			}
		}
		return false
	}
}
