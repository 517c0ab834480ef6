package simulate

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

var (
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/put.sql
	putSQL string
	//go:embed sql/select.sql
	selectSQL string
)

// store is the database of a run, for the writers and their parent.
type store struct {
	db     *sql.DB
	schema string // quoted
	fence  *stdsql.Guard
}

// pragmas let three processes share the file: readers do not wait for a writer, and a writer
// waits for another writer.
const pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"

// openStore opens the database that s names.
func openStore(ctx context.Context, s setup) (*store, error) {
	if s.Postgres != "" {
		config, err := connect.PostgresConfig(s.Postgres, "fencepost simulate")
		if err != nil {
			return nil, err
		}
		db, err := connect.PostgresDB(ctx, config)
		return &store{db, pgx.Identifier{s.Schema}.Sanitize(), &stdsql.Guard{DB: db, Schema: s.Schema}}, err
	}
	name := url.URL{Path: filepath.ToSlash(s.SQLite)}
	db, err := sql.Open("sqlite", "file:"+name.EscapedPath()+"?"+pragmas)
	if err != nil {
		return nil, fmt.Errorf("open SQLite: %w", err)
	}
	// One connection, so that a stopped process has no other statement in progress.
	db.SetMaxOpenConns(1)
	return &store{db, `"main"`, &stdsql.Guard{DB: db, Dialect: stdsql.SQLite}}, nil
}

func (s *store) read(ctx context.Context, id string) (a account, err error) {
	err = s.db.QueryRowContext(ctx, s.in(selectSQL), id).Scan(&a.balance, &a.increments, &a.mark.Number, &a.mark.Holder)
	if err != nil {
		return a, fmt.Errorf("read %s: %w", id, err)
	}
	return a, nil
}

// write writes the row. With a guard, the same statement is in the guard's transaction.
func (s *store) write(ctx context.Context, id string, a account, guarded bool) error {
	values := []any{id, a.balance, a.increments, a.mark.Number, a.mark.Holder}
	if !guarded {
		return s.exec(ctx, putSQL, values...)
	}
	return s.fence.Update(ctx, id, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, s.in(putSQL), values...)
		return err
	})
}

func (s *store) exec(ctx context.Context, statement string, args ...any) error {
	if _, err := s.db.ExecContext(ctx, s.in(statement), args...); err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	return nil
}

// in returns a statement for the schema of the run.
func (s *store) in(statement string) string { return strings.ReplaceAll(statement, `"main"`, s.schema) }

// opened is an account without writes.
var opened = account{balance: 100}

// amounts are what the writers add. They differ, so that the balance shows which is missing.
var amounts = map[string]int64{"A": 50, "B": 20}

// account is the row that writers add to. It lists its increments, so that a lost one is
// found whichever balance was written last.
type account struct {
	balance    int64
	increments string // as in "A+50 B+20"
	mark       guard.Mark
}

func increment(writer string) string { return fmt.Sprintf("%s+%d", writer, amounts[writer]) }

// plus returns the row with a writer's increment.
func (a account) plus(writer string, mark guard.Mark) account {
	a.balance += amounts[writer]
	a.increments = strings.TrimSpace(a.increments + " " + increment(writer))
	a.mark = mark
	return a
}

func (a account) has(writer string) bool {
	return slices.Contains(strings.Fields(a.increments), increment(writer))
}

// lacks returns the increments of writers that the row does not have.
func (a account) lacks(writers []string) (increments []string) {
	for _, writer := range writers {
		if !a.has(writer) {
			increments = append(increments, increment(writer))
		}
	}
	return increments
}
