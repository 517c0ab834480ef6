package migrations

import (
	"context"
	"fmt"

	"github.com/pressly/goose/v3/database"
)

// versions is goose's table of applied migrations, under a name of our own,
// so that a program's goose_db_version is left alone.
type versions struct {
	database.Store

	exists string
	args   []any
}

var _ database.StoreExtender = versions{}

const versionTable = "fencepost_migrations"

func newVersions(d Dialect, name schema) (versions, error) {
	v := versions{
		exists: "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = $2)",
		args:   []any{string(name), versionTable},
	}
	kind, table := database.DialectPostgres, name.ident()+"."+versionTable
	switch d {
	case MySQL:
		v.exists = "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?"
		v.args = []any{versionTable}
		kind, table = database.DialectMySQL, versionTable
	case SQLite:
		v.exists, v.args = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?", []any{versionTable}
		kind, table = database.DialectSQLite3, versionTable
	}
	store, err := database.NewStore(kind, table)
	v.Store = store
	return v, err
}

// TableExists replaces goose's own, which takes quoted names as they are and
// would not find them.
func (v versions) TableExists(ctx context.Context, db database.DBTxConn) (bool, error) {
	var exists bool
	err := db.QueryRowContext(ctx, v.exists, v.args...).Scan(&exists)
	return exists, err
}

// create makes the table, as goose would, where it is missing.
func (v versions) create(ctx context.Context, db database.DBTxConn) error {
	exists, err := v.TableExists(ctx, db)
	if err != nil || exists {
		return err
	}
	if err := v.CreateVersionTable(ctx, db); err != nil {
		return err
	}
	if err := v.Insert(ctx, db, database.InsertRequest{Version: 0}); err != nil {
		return fmt.Errorf("version 0: %w", err)
	}
	return nil
}
