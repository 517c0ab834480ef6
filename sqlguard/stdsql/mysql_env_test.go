package stdsql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/migrations"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// newMySQL makes a database on MariaDB.
func newMySQL(t *testing.T) *database {
	t.Helper()
	dsn := testenv.MariaDB(t)
	db := &database{driver: "mysql", dsn: dsn, dialect: stdsql.MySQL, marks: "fencepost_marks"}
	require.NoError(t, migrations.Set{Dialect: migrations.MySQL}.Up(t.Context(), connect(t, "mysql", dsn)))
	return db.made(t, "BIGINT AUTO_INCREMENT")
}
