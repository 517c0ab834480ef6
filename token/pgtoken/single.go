package pgtoken

import (
	"context"
	_ "embed" // the statements

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	//go:embed ask.sql
	askSQL string
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
	//go:embed raise.sql
	raiseSQL string
)

// single is call without BEGIN and COMMIT, where it can be: a statement alone is
// a transaction too, which the server commits before it says that it is ready
// for the next one, and pgx reads up to there. Where the session's own level or
// mode makes it fail, nothing was done: from then on they are sent.
func (i *Issuer) single(ctx context.Context, sql string, args []any, row ...any) error {
	if err := usable(i.DB); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	alone, ok := i.rows()
	if !ok {
		return i.call(ctx, sql, args, row...)
	}
	err := alone.QueryRow(ctx, i.texts[sql], args...).Scan(row...)
	if fitsNot[sqlState(err)] {
		i.begins.Store(true)
		return i.call(ctx, sql, args, row...)
	}
	return explained(ctx, err)
}

// fitsNot are the SQLSTATEs of a transaction that is stricter than READ
// COMMITTED (package migrations', and the server's), or read only.
var fitsNot = map[string]bool{"ZF004": true, "40001": true, "25006": true}

type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// rows passes over all but pgx's own: a DB of another kind has SendBatch, and
// what else it has may be something else. Where each statement is described
// first, only a transaction keeps the two together behind a pooler.
func (i *Issuer) rows() (queryer, bool) {
	var db queryer
	var config func() *pgx.ConnConfig
	switch own := i.DB.(type) {
	case *pgxpool.Pool:
		db, config = own, func() *pgx.ConnConfig { return own.Config().ConnConfig }
	case *pgxpool.Conn:
		db, config = own, own.Conn().Config
	case *pgx.Conn:
		db, config = own, own.Config
	default:
		return nil, false
	}
	i.look.Do(func() {
		i.texts = map[string]string{}
		for _, sql := range []string{askSQL, waitSQL, leaveSQL, renewSQL, renewAllSQL, releaseSQL, raiseSQL} {
			i.texts[sql] = i.inSchema(sql)
		}
		if config().DefaultQueryExecMode == pgx.QueryExecModeDescribeExec {
			i.begins.Store(true)
		}
	})
	return db, !i.begins.Load()
}
