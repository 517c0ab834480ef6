package marks

import (
	"context"
	"database/sql"
	"embed"
)

// statements are the files of the folder sql.
//
//go:embed sql/*/*.sql
var statements embed.FS

// file returns the text of a file of the folder sql.
func file(name string) string {
	text, err := statements.ReadFile("sql/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// database is a session of a server.
type database struct {
	*sql.Conn
	dialect
}

// dialect is what differs between PostgreSQL and MySQL, apart from the statements that both
// have under the same name.
type dialect interface {
	// statement returns the text of a file, and the arguments to send with it.
	statement(name string, args ...any) (text string, send []any)
	// fences returns an *engine.Error if the engine is not known to fence.
	fences(ctx context.Context, conn *sql.Conn) error
	// sessions returns the sessions that are admitted for a resource or wait, or nil if the
	// server does not list them.
	sessions(ctx context.Context, db *database, resource string) ([]session, error)
	// prune raises the floor to the cutoff, and deletes the marks below the cutoff except
	// those of busy resources, in short transactions. It returns the number of deleted
	// rows, also with an error.
	prune(ctx context.Context, db *database, cutoff number) (rows int, err error)
	// pruneUnits deletes the units whose time has passed, in short transactions. It returns
	// how many, also with an error.
	pruneUnits(ctx context.Context, db *database) (units int, err error)
	// reset lowers the mark of c's resource and returns its new number. It waits for the
	// transactions that are admitted for the resource, for c.Wait.
	reset(ctx context.Context, db *database, c *resetCmd) (number, error)
	// afterReset returns the text that is printed after a reset to number.
	afterReset(c *resetCmd, fresh number) string
	// explain adds to err a missing GRANT or missing tables, if that is its cause.
	explain(ctx context.Context, db *database, a access, err error) error
}

// row reads one row by the statement of a file.
func (db *database) row(ctx context.Context, name string, args []any, into ...any) error {
	text, send := db.statement(name, args...)
	return db.QueryRowContext(ctx, text, send...).Scan(into...)
}

// collect returns the rows of a statement, each read by scan.
func collect[T any](rows *sql.Rows, err error, scan func(*sql.Rows) (T, error)) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []T{}
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// rows reads rows by the statement of a file.
func (db *database) rows(ctx context.Context, name string, args ...any) (*sql.Rows, error) {
	text, send := db.statement(name, args...)
	return db.QueryContext(ctx, text, send...)
}

// exec runs the statement of a file.
func (db *database) exec(ctx context.Context, name string, args ...any) error {
	text, send := db.statement(name, args...)
	_, err := db.ExecContext(ctx, text, send...)
	return err
}
