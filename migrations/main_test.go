package migrations_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/migrations"
)

// If envDriver is set, this test binary is another process that migrates.
const (
	envDriver = "FENCEPOST_MIGRATE_DRIVER"
	envURL    = "FENCEPOST_MIGRATE_URL"
	envSchema = "FENCEPOST_MIGRATE_SCHEMA"
)

func TestMain(m *testing.M) {
	if os.Getenv(envDriver) == "" {
		leaktest.Main(m)
	}
	if err := migrate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func migrate() (err error) {
	set := migrations.Set{Schema: os.Getenv(envSchema)}
	switch os.Getenv(envDriver) {
	case "mysql":
		set.Dialect = migrations.MySQL
	case "sqlite":
		set.Dialect = migrations.SQLite
	}
	db, err := sql.Open(os.Getenv(envDriver), os.Getenv(envURL))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	fmt.Println("ready")
	// Closing the pipe is the start signal.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return set.Up(context.Background(), db) // the process is killed when the test ends
}
