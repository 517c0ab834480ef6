package simulate

import (
	"context"
	"database/sql"
	_ "embed" // the statements
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/guard"
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

// store is the database of a run, as writers and parent use it.
type store struct {
	db     *sql.DB
	schema string      // quoted
	fence  guard.Store // the marks, for claims
	// update runs one statement in a transaction that is admitted first.
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
	return s.exec(ctx, insertSQL, id, opening)
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

// write is what everybody writes who has no guard.
func (s *store) write(ctx context.Context, a account) error {
	return s.exec(ctx, updateSQL, a.values()...)
}

// writeGuarded is the same statement, behind the fence.
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
