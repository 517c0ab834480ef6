package doctor

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/pgpooler"
)

// postgresPooler compares the process id from the connection's start with the id of the
// process that answers: a pooler sends its own id at the start.
func postgresPooler(ctx context.Context, s *postgresServer) (answer, error) {
	process, err := processOf(s.conn)(ctx)
	if err != nil {
		return answer{}, err
	}
	announced := int64(s.conn.PgConn().PID())
	evidence := fmt.Sprintf("the connection announced process %d, and process %d answered", announced, process)
	if announced == process {
		return pass(evidence + ": none")
	}
	other, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return answer{}, err
	}
	defer other.Close(context.WithoutCancel(ctx))
	shared, err := pgpooler.Shared(ctx, processOf(s.conn), processOf(other))
	if err != nil {
		return answer{}, err
	}
	if !shared {
		return pass(evidence + ": a pooler that keeps the session")
	}
	const own = "fencepost migrate, and an advisory lock that a session holds, need the server's own address"
	kept, err := s.keeps(ctx, other)
	if err != nil {
		return answer{}, err
	}
	if !kept {
		return warn(evidence+": a pooler in transaction mode, without prepared statements",
			"default_query_exec_mode=exec in the URL of pgx, or PgBouncer 1.21 with max_prepared_statements; "+own)
	}
	return warn(evidence+": a pooler in transaction mode", own)
}

func processOf(conn *pgx.Conn) pgpooler.Client {
	return func(ctx context.Context) (process int64, err error) {
		// This mode needs no prepared statement, which a pooler may not keep.
		err = conn.QueryRow(ctx, pgpooler.Process, pgx.QueryExecModeExec).Scan(&process)
		return process, err
	}
}

// keeps reports whether prepared statements are kept. It prepares a statement, lets the
// other client begin a transaction, which may get the same session, and runs the statement
// from the first client.
func (s *postgresServer) keeps(ctx context.Context, other *pgx.Conn) (bool, error) {
	name := fmt.Sprintf("fencepost_doctor_%d", s.conn.PgConn().PID())
	if _, err := s.conn.PgConn().Prepare(ctx, name, "SELECT", nil); err != nil {
		return false, err
	}
	tx, err := other.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.forget(ctx, tx, name)
	used := s.conn.PgConn().ExecPrepared(ctx, name, nil, nil, nil).Read().Err
	if used != nil && !isServerError(used) {
		return false, used
	}
	return used == nil, nil
}

// forget removes the statement from both sessions, because either may have it.
func (s *postgresServer) forget(ctx context.Context, tx pgx.Tx, name string) {
	deallocate := "DEALLOCATE " + name
	_, _ = tx.Exec(ctx, deallocate)
	_ = tx.Rollback(ctx)
	_, _ = s.conn.Exec(ctx, deallocate)
}
