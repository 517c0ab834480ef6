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
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

var (
	//go:embed sql/create.sql
	createSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/select.sql
	selectSQL string
	//go:embed sql/update.sql
	updateSQL string
)

// store is the database of a run, for the writers and their parent.
type store struct {
	db     *sql.DB
	schema string      // quoted
	fence  guard.Store // the marks, for claims
	// update runs one statement in a transaction that admits the token first.
	update func(ctx context.Context, resource, statement string, args ...any) error
	close  func() error
}

// openStore opens the database that s names.
func openStore(ctx context.Context, s setup) (*store, error) {
	if s.Postgres != "" {
		return openPostgres(ctx, s)
	}
	return openSQLite(ctx, s.SQLite)
}

func (s *store) create(ctx context.Context) error { return s.exec(ctx, createSQL) }

func (s *store) insert(ctx context.Context, id string) error {
	return s.exec(ctx, insertSQL, id, openingBalance)
}

func (s *store) read(ctx context.Context, id string) (account, error) {
	var a account
	err := s.db.QueryRowContext(ctx, s.in(selectSQL), id).
		Scan(&a.id, &a.balance, &a.increments, &a.mark.Number, &a.mark.Holder)
	if err != nil {
		return a, fmt.Errorf("simulate: read %s: %w", id, err)
	}
	return a, nil
}

// write writes the row without a guard.
func (s *store) write(ctx context.Context, a account) error {
	return s.exec(ctx, updateSQL, a.values()...)
}

// writeGuarded writes the row with the same statement inside the guard's transaction.
func (s *store) writeGuarded(ctx context.Context, a account) error {
	return s.update(ctx, a.id, s.in(updateSQL), a.values()...)
}

func (a account) values() []any {
	return []any{a.id, a.balance, a.increments, a.mark.Number, a.mark.Holder}
}

func (s *store) exec(ctx context.Context, statement string, args ...any) error {
	if _, err := s.db.ExecContext(ctx, s.in(statement), args...); err != nil {
		return fmt.Errorf("simulate: accounts: %w", err)
	}
	return nil
}

func (s *store) in(statement string) string {
	return strings.ReplaceAll(statement, `"main"`, s.schema)
}

const openingBalance = 100

// account is the row that writers add to. It lists its increments, so that a lost one is
// found whichever balance was written last.
type account struct {
	id         string
	balance    int64
	increments string // as in "A+50 B+20"
	mark       guard.Mark
}

func increment(writer string, amount int64) string { return fmt.Sprintf("%s+%d", writer, amount) }

// plus returns the row with a writer's increment.
func (a account) plus(writer string, amount int64, mark guard.Mark) account {
	a.balance += amount
	a.increments = strings.TrimSpace(a.increments + " " + increment(writer, amount))
	a.mark = mark
	return a
}

func (a account) has(writer string, amount int64) bool {
	return slices.Contains(strings.Fields(a.increments), increment(writer, amount))
}

// pragmas let three processes share the file: readers do not wait for a writer, and a writer
// waits for another writer.
const pragmas = "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"

func openSQLite(ctx context.Context, path string) (*store, error) {
	name := url.URL{Path: filepath.ToSlash(path)}
	db, err := sql.Open("sqlite", "file:"+name.EscapedPath()+"?"+pragmas)
	if err != nil {
		return nil, fmt.Errorf("simulate: open SQLite: %w", err)
	}
	// One connection, so that a stopped process has no other statement in progress.
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

func openPostgres(ctx context.Context, s setup) (*store, error) {
	pool, err := connectPostgres(ctx, s)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDBFromPool(pool)
	fence := &sqlguard.Guard{DB: pool, Schema: s.Schema}
	update := func(ctx context.Context, resource, statement string, args ...any) error {
		return fence.Update(ctx, resource, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, statement, args...)
			return err
		})
	}
	closeAll := func() error {
		err := db.Close()
		pool.Close()
		return err
	}
	return &store{db: db, schema: pgx.Identifier{s.Schema}.Sanitize(), fence: fence, update: update, close: closeAll}, nil
}

func connectPostgres(ctx context.Context, s setup) (*pgxpool.Pool, error) {
	config, err := connect.PostgresPool(s.Postgres, "postgres", "fencepost simulate "+s.Name)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 2
	ctx, cancel := connect.Within(ctx)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres cannot be used: %w", connect.WithCause(ctx, err))
	}
	return pool, nil
}
