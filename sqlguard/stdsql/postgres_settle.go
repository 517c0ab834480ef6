package stdsql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
)

// settle asks for the fate of a transaction on another connection of the pool. The
// connection of the transaction was discarded.
func (d *postgres) settle(ctx context.Context, t *transaction, lost error) error {
	if d.name == "" { // a claim, or report-only mode
		return t.unknownOutcome(lost)
	}
	fate, err := pgadmit.Settle(untraced(ctx), d.name, func(ctx context.Context) (pgadmit.Session, error) {
		conn, err := t.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		return &settlement{conn, d.statements}, nil
	})
	switch {
	case err != nil: // as text: it may be the end of a context that is not the caller's
		return t.unknownOutcome(fmt.Errorf("%w; not settled: %s", lost, err.Error()))
	case fate == pgadmit.Committed:
		return nil
	}
	if err := t.outcomeError(lost); hasOutcome(err) {
		return err
	}
	return fmt.Errorf("%w: it was rolled back: %w", guard.ErrRetryable, lost)
}

// settlement is a [pgadmit.Session].
type settlement struct {
	conn *sql.Conn
	*statements
}

func (s *settlement) Fate(ctx context.Context, name pgadmit.TxName) (pgadmit.Fate, error) {
	var fate sql.NullString
	err := s.conn.QueryRowContext(ctx, s.fate, string(name)).Scan(&fate)
	return pgadmit.Fate(fate.String), err
}

// Confirm does not see a WARNING: database/sql has no notices.
func (s *settlement) Confirm(ctx context.Context) error {
	_, err := s.conn.ExecContext(ctx, s.confirm)
	return err
}

func (s *settlement) End(ctx context.Context, name pgadmit.TxName) error {
	_, err := s.conn.ExecContext(ctx, s.endTransaction, string(name))
	return err
}

func (s *settlement) Close(context.Context) { s.conn.Close() }
