package sqlguard

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
)

// alone sends a statement that is a transaction by itself. A batch of one would
// cost a twentieth more than the driver's Exec.
func (w *target) alone(ctx context.Context, sql string, args []any) (int64, error) {
	if err := ended(ctx); err != nil {
		return 0, err
	}
	w.at(ctx, point.Begin)
	inner, land := steady(ctx)
	defer land()
	tag, unknown, err := exec(point.Within(inner, &w.call), w.db, sql, args)
	switch {
	case unknown:
		w.at(ctx, point.Unknown)
		err = &verdict{guard.ErrUnknown, err}
	case err == nil && tag.RowsAffected() > 0:
		w.at(ctx, point.Applied)
	default:
		w.at(ctx, point.Undone)
	}
	return tag.RowsAffected(), guard.WithLoss(ctx, nothingApplied(err))
}

// exec also reports whether err leaves open if the statement was applied. That
// takes the connection, before the pool has it back: what pgx itself says of an
// argument, say, leaves it alive. Of a DB of another kind only SendBatch is
// known to go where it should.
func exec(ctx context.Context, db DB, sql string, args []any) (tag pgconn.CommandTag, unknown bool, err error) {
	switch db := db.(type) {
	case *pgxpool.Pool:
		conn, err := db.Acquire(ctx)
		if err != nil {
			return tag, false, err
		}
		defer conn.Release()
		return execOn(ctx, conn.Conn(), sql, args)
	case *pgxpool.Conn:
		return execOn(ctx, db.Conn(), sql, args)
	case *pgx.Conn:
		return execOn(ctx, db, sql, args)
	}
	b := &pgx.Batch{}
	b.Queue(sql, args...)
	results := db.SendBatch(ctx, b)
	tag, err = results.Exec()
	if e := results.Close(); err == nil { // a deferred constraint fails there
		err = e
	}
	return tag, open(err) && !errors.As(err, new(pgx.ErrPreprocessingBatch)), err
}

func execOn(ctx context.Context, conn *pgx.Conn, sql string, args []any) (tag pgconn.CommandTag, unknown bool, err error) {
	tag, err = conn.Exec(ctx, sql, args...)
	return tag, open(err) && (conn.IsClosed() || sqlState(err) != ""), err
}

// open reports whether err may have come behind the commit, which a statement
// by itself brings with it.
func open(err error) bool { return err != nil && (severed(err) || interrupted(err)) }
