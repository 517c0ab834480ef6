package lockset

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
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

// set is a row: integers, and the mark that only check-then-write looks at.
type set struct {
	name    string
	members []int64
	mark    guard.Mark
}

type reader interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readSet(ctx context.Context, db reader, name string) (set, error) {
	s := set{name: name}
	err := db.QueryRow(ctx, selectSQL, name).Scan(&s.members, &s.mark.Number, &s.mark.Holder)
	if err != nil {
		return s, fmt.Errorf("lockset: read %s: %w", name, err)
	}
	return s, nil
}

// plus returns the set as a writer means to leave it.
func (s set) plus(value int64, tok token.Token) set {
	s.members = append(s.members, value)
	s.mark = guard.Mark{Number: tok.Number, Holder: tok.Holder}
	return s
}

type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (s set) write(ctx context.Context, db executor) error {
	tag, err := db.Exec(ctx, updateSQL, s.name, s.members, s.mark.Number, s.mark.Holder)
	if err == nil && tag.RowsAffected() != 1 {
		return errors.New("lockset: there is no set " + s.name)
	}
	return err
}

// plain is a pool as people have it who have no guard. Its errors say what a
// guard's would: where a statement was sent and not answered, nobody knows.
type plain struct{ db executor }

// Exec runs a statement.
func (p plain) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := context.Cause(ctx); err != nil {
		return pgconn.CommandTag{}, err // nothing was sent
	}
	tag, err := p.db.Exec(ctx, sql, args...)
	var fromServer *pgconn.PgError
	if err != nil && !errors.As(err, &fromServer) && !pgconn.SafeToRetry(err) {
		err = fmt.Errorf("%w: %w", guard.ErrUnknown, err)
	}
	return tag, err
}
