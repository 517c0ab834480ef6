package pgtoken

import (
	"context"
	_ "embed" // the statements
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/token"
)

var (
	//go:embed acquire.sql
	acquireSQL string
	//go:embed wait.sql
	waitSQL string
	//go:embed leave.sql
	leaveSQL string
	//go:embed renew.sql
	renewSQL string
	//go:embed renew_all.sql
	renewAllSQL string
	//go:embed release.sql
	releaseSQL string
	//go:embed recover.sql
	recoverSQL string
	//go:embed state.sql
	stateSQL string
)

// DB is the connection of an Issuer: usually a *pgxpool.Pool. With another type, renewals
// wait for what it gives to the application first.
//
// A *pgxpool.Conn or *pgx.Conn can be used if nothing else uses it at the same time; note
// that a [github.com/fencepost/fencepost/lock.Locker] uses it in the background, to
// renew. A pgx.Tx is refused, and so is a connection inside a transaction, since a number
// must not be used before its commit.
type DB interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

func checkDB(db DB) error {
	switch db := db.(type) {
	case nil:
		return errors.New("Issuer has no DB")
	case pgx.Tx:
		return errors.New("DB is a transaction: a number must not be used before its commit")
	case *pgx.Conn:
		return checkIdle(db)
	case interface{ Conn() *pgx.Conn }:
		return checkIdle(db.Conn())
	}
	return nil
}

func checkIdle(conn *pgx.Conn) error {
	if conn.PgConn().TxStatus() != 'I' {
		return errors.New("DB is a connection inside a transaction, which COMMIT would end")
	}
	return nil
}

// run sends one statement and scans its row. A single statement is a transaction, which
// the server commits before it reports that it is ready for the next; pgx reads up to
// that report. So run usually sends no BEGIN and COMMIT. If the statement fails because
// of the session's own isolation level or access mode, nothing was done, and run sends
// BEGIN and COMMIT from then on.
func (i *Issuer) run(ctx context.Context, sql string, args []any, row ...any) error {
	return i.runOn(ctx, i.DB, sql, args, row...)
}

func (i *Issuer) runOn(ctx context.Context, on DB, sql string, args []any, row ...any) error {
	if err := checkDB(on); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	sql = i.inSchema(sql)
	db, ok := i.autocommit(on)
	if !ok {
		return i.transact(ctx, on, sql, args, row...)
	}
	err := db.QueryRow(ctx, sql, args...).Scan(row...)
	if needsBegin[sqlState(err)] {
		err = i.transact(ctx, on, sql, args, row...)
		if !errors.Is(err, token.ErrUnreachable) { // a standby returns 25006 too
			i.begins.Store(true)
		}
		return err
	}
	return explain(ctx, err)
}

// needsBegin has the SQLSTATEs of a session whose default transactions are stricter than
// READ COMMITTED (ZF004 from the functions of package migrations, 40001 from the server)
// or read only (25006).
var needsBegin = map[string]bool{"ZF004": true, "40001": true, "25006": true}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// autocommit returns on if statements can be sent to it without BEGIN and COMMIT. It
// accepts only pgx's own types: the QueryRow of another type may do something else. If
// pgx describes each statement first, only a transaction keeps the two round trips in one
// session behind a pooler.
func (i *Issuer) autocommit(on DB) (queryer, bool) {
	var db queryer
	var config func() *pgx.ConnConfig
	switch own := on.(type) {
	case *pgxpool.Pool:
		db, config = own, func() *pgx.ConnConfig { return own.Config().ConnConfig }
	case *pgxpool.Conn:
		db, config = own, own.Conn().Config
	case *pgx.Conn:
		db, config = own, own.Config
	default:
		return nil, false
	}
	i.readMode.Do(func() {
		if config().DefaultQueryExecMode == pgx.QueryExecModeDescribeExec {
			i.begins.Store(true)
		}
	})
	return db, !i.begins.Load()
}
