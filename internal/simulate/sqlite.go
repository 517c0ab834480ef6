package simulate

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// pragmas let three processes share the file: readers do not wait for a writer,
// and a writer waits for another.
const pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"

func openSQLite(ctx context.Context, path string) (*store, error) {
	name := url.URL{Path: filepath.ToSlash(path)}
	db, err := sql.Open("sqlite", "file:"+name.EscapedPath()+"?"+pragmas)
	if err != nil {
		return nil, fmt.Errorf("simulate: open SQLite: %w", err)
	}
	// One connection: a process that is stopped has no other one in between.
	db.SetMaxOpenConns(1)
	if err := db.PingContext(ctx); err != nil {
		db.Close()
		return nil, fmt.Errorf("simulate: open SQLite: %w", err)
	}
	fence := &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}
	update := func(ctx context.Context, resource, statement string, args ...any) error {
		return fence.Update(ctx, resource, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, statement, args...)
			return err
		})
	}
	return &store{db: db, schema: `"main"`, fence: fence, update: update, close: db.Close}, nil
}
