package doctor

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/engine"
)

// postgresEngine applies the rule that guards apply to each connection.
func postgresEngine(ctx context.Context, s *postgresServer) (answer, error) {
	var version, extensions string
	if err := s.conn.QueryRow(ctx, engine.PostgresQuery).Scan(&version, &extensions); err != nil {
		return answer{}, err
	}
	var refusal *engine.Error
	if errors.As(engine.CheckPostgres(version, extensions), &refusal) {
		return fail(refusal.Engine+" is not known to fence", refusal.Reason+": "+engine.Page)
	}
	return pass(version)
}

// postgresLocks tests that an advisory lock excludes another connection, and ends with its
// transaction.
func postgresLocks(ctx context.Context, s *postgresServer) (answer, error) {
	return s.proven(ctx, func(a, b *pgx.Conn) (answer, error) {
		wrong, err := locksExclude(ctx, a, b)
		if err != nil || wrong != "" {
			return answer{verdict: Fail, evidence: wrong, fix: "keep the marks in a PostgreSQL; see " + engine.Page}, err
		}
		return pass("a lock of one connection excludes the other, and ends with its transaction")
	})
}

// postgresSnapshots tests that the second statement of a READ COMMITTED transaction sees
// commits of another connection since the first.
func postgresSnapshots(ctx context.Context, s *postgresServer) (answer, error) {
	return s.proven(ctx, func(a, b *pgx.Conn) (answer, error) {
		sees, err := seesCommits(ctx, a, b, pgx.ReadCommitted)
		if err != nil {
			return answer{}, err
		}
		if !sees {
			return fail("a READ COMMITTED transaction does not see commits after its first statement",
				"enable READ COMMITTED (YugabyteDB: yb_enable_read_committed_isolation), or keep the marks in a PostgreSQL; see "+engine.Page)
		}
		return pass("a READ COMMITTED transaction sees commits of another connection after its first statement")
	})
}

// proven calls proof with the connection and a second one.
func (s *postgresServer) proven(ctx context.Context, proof func(a, b *pgx.Conn) (answer, error)) (answer, error) {
	var standby bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_catalog.pg_is_in_recovery()").Scan(&standby); err != nil {
		return answer{}, err
	}
	if standby {
		return unknown("a standby cannot run this test", "examine the primary")
	}
	other, err := pgx.ConnectConfig(ctx, s.config)
	if err != nil {
		return unknown("this test needs a second connection: "+err.Error(), "allow this role two connections")
	}
	defer other.Close(context.WithoutCancel(ctx))
	return proof(s.conn, other)
}

// locksExclude takes the locks of an admission and of a claim, under a random key, and
// returns what is wrong with them.
func locksExclude(ctx context.Context, a, b *pgx.Conn) (wrong string, err error) {
	key := rand.Int64()
	tx, err := a.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_xact_lock_shared($1::bigint)", key); err != nil {
		return "", err
	}
	try := func(function string) (got bool, err error) {
		err = b.QueryRow(ctx, "SELECT pg_catalog."+function+"($1::bigint)", key).Scan(&got)
		return got, err
	}
	alone, err := try("pg_try_advisory_xact_lock")
	if err != nil {
		return "", err
	}
	shared, err := try("pg_try_advisory_xact_lock_shared")
	if err != nil {
		return "", err
	}
	if err := tx.Rollback(ctx); err != nil {
		return "", err
	}
	after, err := try("pg_try_advisory_xact_lock")
	switch {
	case err != nil:
		return "", err
	case alone:
		return "two connections have the same advisory lock at the same time", nil
	case !shared:
		return "a shared advisory lock excludes another shared one", nil
	case !after:
		return "an advisory lock of a transaction outlives the transaction", nil
	}
	return "", nil
}

// seesCommits reports whether the second statement of a transaction of that level on a
// sees a transaction that b has committed since the first. The transaction of b has an
// id, and writes nothing.
func seesCommits(ctx context.Context, a, b *pgx.Conn, level pgx.TxIsoLevel) (sees bool, err error) {
	tx, err := a.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SELECT pg_catalog.pg_current_snapshot()"); err != nil {
		return false, err
	}
	var committed string
	if err := b.QueryRow(ctx, "SELECT pg_catalog.pg_current_xact_id()::text").Scan(&committed); err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, "SELECT pg_catalog.pg_visible_in_snapshot($1::text::xid8, pg_catalog.pg_current_snapshot())", committed).Scan(&sees)
	return sees, err
}
