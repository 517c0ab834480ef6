package testenv

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// EnvMariaDB names a MariaDB server, or a MySQL one, by a DSN of
// github.com/go-sql-driver/mysql, as in "root:secret@tcp(127.0.0.1:3306)/". Its
// account may create databases.
const EnvMariaDB = "FENCEPOST_TEST_MARIADB_URL"

var sharedMariaDB = source{
	name: "MariaDB", env: EnvMariaDB, url: mariadbDSN, shown: shownDSN, local: mariadbProgram,
}

// MariaDB returns the DSN, for the driver "mysql", of an empty database on the
// shared server that is this test's alone. It is dropped at the end of the
// test, after what the test has to clean up itself: close all connections there.
func MariaDB(t testing.TB) (dsn string) {
	t.Helper()
	config, err := mysql.ParseDSN(sharedMariaDB.URL(t))
	if err != nil {
		t.Fatalf("testenv: %s is not a DSN", EnvMariaDB)
	}
	admin := openMariaDB(t, config)
	config.DBName = unique("fencepost_test_")
	if _, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+config.DBName); err != nil {
		t.Fatalf("testenv: database %s: %v", config.DBName, err)
	}
	t.Cleanup(func() {
		ctx, cancel := afterTest(t)
		defer cancel()
		if _, err := admin.ExecContext(ctx, "DROP DATABASE "+config.DBName); err != nil {
			t.Errorf("testenv: drop of database %s: %v", config.DBName, err)
		}
	})
	return config.FormatDSN()
}

func openMariaDB(t testing.TB, config *mysql.Config) *sql.DB {
	t.Helper()
	own := config.Clone()
	own.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(own)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

func mariadbDSN(port int) string { return fmt.Sprintf("root@tcp(127.0.0.1:%d)/", port) }

// shownDSN is the DSN without its password.
func shownDSN(given string) (string, error) {
	config, err := mysql.ParseDSN(given)
	if err != nil {
		return "", fmt.Errorf("testenv: %s is not a DSN", EnvMariaDB) // err may print the password
	}
	return config.User + "@" + config.Net + "(" + config.Addr + ")", nil
}
