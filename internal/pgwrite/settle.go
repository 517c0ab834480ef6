package pgwrite

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/pgadmit"
	"github.com/fencepost/fencepost/internal/writectx"
)

// settle returns the error of a transaction whose COMMIT was sent on conn and may have
// been applied; lost is the error of that COMMIT. It returns nil if the transaction was
// committed.
func (c *Call) settle(caller context.Context, conn *pgx.Conn, lost error) error {
	if c.name == "" { // report-only mode
		return &OutcomeError{guard.ErrUnknown, lost}
	}
	fate, err := pgadmit.Settle(untraced(caller), c.name, func(ctx context.Context) (pgadmit.Session, error) {
		return c.reconnect(ctx, conn)
	})
	switch {
	case err != nil: // as text: it may be the end of a context that is not the caller's
		return &OutcomeError{guard.ErrUnknown, fmt.Errorf("sqlguard: commit: %w; not settled: %s", lost, err.Error())}
	case fate == pgadmit.Committed:
		return nil
	}
	if err := NothingApplied(lost); hasOutcome(err) {
		return err
	}
	return &OutcomeError{guard.ErrRetryable, fmt.Errorf("sqlguard: commit was rolled back: %w", lost)}
}

// reconnect opens a connection with the configuration of old. It is not from the pool:
// the pool may be empty because its other users have lost their connections too.
func (c *Call) reconnect(ctx context.Context, old *pgx.Conn) (pgadmit.Session, error) {
	config := old.Config()
	var after func(context.Context, *pgx.Conn) error
	if pool, ok := c.db.(*pgxpool.Pool); ok {
		settings := pool.Config()
		after = settings.AfterConnect
		if settings.BeforeConnect != nil {
			if err := settings.BeforeConnect(ctx, config); err != nil {
				return nil, err
			}
		}
	}
	s := &settlement{stmts: statementsOf(c.Schema), mode: pgx.QueryExecModeExec} // one round trip, nothing prepared
	onNotice := config.OnNotice
	config.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		s.warned = s.warned || n.SeverityUnlocalized == "WARNING"
		if onNotice != nil {
			onNotice(conn, n)
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	if isSimple(conn) {
		s.mode = pgx.QueryExecModeSimpleProtocol
	}
	if after != nil {
		if err := after(ctx, conn); err != nil {
			s.Close(ctx)
			return nil, err
		}
	}
	return s, nil
}

// settlement is a [pgadmit.Session].
type settlement struct {
	conn   *pgx.Conn
	stmts  *statements
	mode   pgx.QueryExecMode
	warned bool // the server has sent a WARNING
}

func (s *settlement) Fate(ctx context.Context, name pgadmit.TxName) (pgadmit.Fate, error) {
	var fate *pgadmit.Fate
	err := s.conn.QueryRow(ctx, s.stmts.fate, s.mode, string(name)).Scan(&fate)
	if err != nil || fate == nil {
		return "", err
	}
	return *fate, nil
}

func (s *settlement) Confirm(ctx context.Context) error {
	s.warned = false
	_, err := s.conn.Exec(ctx, s.stmts.confirm, s.mode)
	if err == nil && s.warned {
		err = pgadmit.ErrWaitCancelled
	}
	return err
}

func (s *settlement) End(ctx context.Context, name pgadmit.TxName) error {
	_, err := s.conn.Exec(ctx, s.stmts.endTransaction, s.mode, string(name))
	return err
}

func (s *settlement) Close(ctx context.Context) {
	ctx, cancel := writectx.ForCleanup(ctx)
	defer cancel()
	_ = s.conn.Close(ctx)
}
