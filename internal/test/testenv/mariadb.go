package testenv

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/fencepost/fencepost/internal/test/serverproc"
)

// EnvMariaDB names a MariaDB or MySQL server by a DSN of github.com/go-sql-driver/mysql,
// as in "root:secret@tcp(127.0.0.1:3306)/". Its account must have the right to create
// databases.
const EnvMariaDB = "FENCEPOST_TEST_MARIADB_URL"

var sharedMariaDB = source{
	name: "MariaDB", env: EnvMariaDB, url: mariadbDSN, shown: shownDSN,
	local: func() (serverproc.Program, error) { return mariadbProgram() },
}

// MariaDB returns the DSN, for the driver "mysql", of an empty database on the shared
// server, for this test only. It is dropped at the end of the test, after the test's own
// clean-up functions: close all connections there.
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

// OwnMariaDB starts this machine's MariaDB with additional settings
// ("--ssl-cert=cert.pem"), on a port and in a folder of its own, and returns the DSN of
// its root, without a database. The server is removed at the end of the test.
func OwnMariaDB(t testing.TB, settings ...string) (dsn string) {
	t.Helper()
	p, err := mariadbProgram(settings...)
	return mariadbDSN(startOwn(t, p, err).Port)
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

// shownDSN returns the DSN without its password.
func shownDSN(given string) (string, error) {
	config, err := mysql.ParseDSN(given)
	if err != nil {
		return "", fmt.Errorf("testenv: %s is not a DSN", EnvMariaDB) // err may contain the password
	}
	return config.User + "@" + config.Net + "(" + config.Addr + ")", nil
}

//go:embed mariadb.sh
var mariadbScript string

// Folders of MariaDB's programs that packages do not add to PATH: Debian (the server
// only), Homebrew on its two architectures.
var mariadbFolders = []string{"", "/usr/sbin", "/usr/bin", "/opt/homebrew/opt/mariadb/bin", "/usr/local/opt/mariadb/bin"}

func mariadbProgram(settings ...string) (serverproc.Program, error) {
	install, err := mariadbBinary("mariadb-install-db")
	if err != nil {
		return serverproc.Program{}, err
	}
	server, err := mariadbBinary("mariadbd")
	if err != nil {
		return serverproc.Program{}, err
	}
	version, _, err := binaryVersion(server)
	if err != nil {
		return serverproc.Program{}, err
	}
	argv := func(folder string, port int) []string {
		args := []string{"sh", "-c", mariadbScript, "sh", install, server, filepath.Join(folder, "data"), fmt.Sprint(port)}
		return append(args, settings...)
	}
	return serverproc.Program{
		Title: "version " + version + " of " + server, Argv: argv,
		// It has nothing to lose, and an orderly shutdown takes seconds.
		Ready: "ready for connections", Signal: "KILL",
	}, nil
}

func mariadbBinary(name string) (path string, err error) {
	for _, folder := range mariadbFolders {
		if path, err = exec.LookPath(filepath.Join(folder, name)); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither PATH nor /usr/sbin has " + name)
}
