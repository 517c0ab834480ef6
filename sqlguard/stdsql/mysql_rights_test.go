package stdsql_test

import (
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

func TestMySQLRightsOfAWriter(t *testing.T) {
	t.Parallel()
	db := newMySQL(t)
	config, err := mysql.ParseDSN(db.dsn)
	require.NoError(t, err)
	config.User, config.Passwd = config.DBName, "secret"
	run(t, db, fmt.Sprintf("CREATE USER '%s' IDENTIFIED BY 'secret'", config.User))
	t.Cleanup(func() { _, _ = db.Exec(fmt.Sprintf("DROP USER '%s'", config.User)) })
	for _, rights := range []string{
		"SELECT, INSERT, UPDATE ON %s.fencepost_marks", "SELECT ON %s.fencepost_floor", "SELECT, UPDATE ON %s.accounts",
	} {
		run(t, db, fmt.Sprintf("GRANT "+rights+" TO '%[1]s'", config.DBName))
	}
	pool := connect(t, "mysql", config.FormatDSN())
	g, ctx := db.over(pool), holding(t, 33, "a")
	require.NoError(t, g.Update(ctx, account, add(ctx, 1)))
	_, err = pool.ExecContext(ctx, "DELETE FROM fencepost_marks")
	require.ErrorContains(t, err, "denied")
	_, err = pool.ExecContext(ctx, "UPDATE fencepost_floor SET number = 0")
	require.ErrorContains(t, err, "denied")
}
