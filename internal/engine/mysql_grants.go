package engine

import (
	"context"
	"fmt"
	"strings"
)

// Errors that deny a right. Error numbers: MySQL 8.0 Error Message Reference.
const (
	mysqlDeniedDatabase = 1044
	mysqlDeniedTable    = 1142
	mysqlDeniedColumn   = 1143
)

// MySQLDenied reports whether the server has denied the account a right.
func MySQLDenied(err error) bool {
	switch MySQLNumber(err) {
	case mysqlDeniedDatabase, mysqlDeniedTable, mysqlDeniedColumn:
		return true
	}
	return false
}

// TableRights are the rights that a program needs on one table, as in "SELECT, UPDATE".
type TableRights struct{ Table, Rights string }

// MySQLRights are the rights of a program that writes under a guard.
var MySQLRights = []TableRights{{"fencepost_marks", "SELECT, INSERT, UPDATE"}, {"fencepost_floor", "SELECT"}}

// MySQLGrants returns the statements that grant rights to the session's account on tables of
// its database, on one line.
func MySQLGrants(ctx context.Context, from Rower, rights ...TableRights) (string, error) {
	var database, account string
	if err := from.QueryRowContext(ctx, "SELECT DATABASE(), CURRENT_USER()").Scan(&database, &account); err != nil {
		return "", err
	}
	at := strings.LastIndexByte(account, '@') // a name may have an @, a host may not
	name, host := account[:max(at, 0)], account[at+1:]
	grants := make([]string, len(rights))
	for i, r := range rights {
		grants[i] = fmt.Sprintf("GRANT %s ON %s.%s TO '%s'@'%s'", r.Rights, MySQLIdent(database), r.Table,
			strings.ReplaceAll(name, "'", "''"), strings.ReplaceAll(host, "'", "''"))
	}
	return strings.Join(grants, "; "), nil
}

// MySQLIdent returns name as a quoted identifier.
func MySQLIdent(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
