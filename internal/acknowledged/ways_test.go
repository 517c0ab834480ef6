package acknowledged_test

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

const (
	selectSQL = "SELECT value FROM {schema}.accounts WHERE id = $1"
	updateSQL = "UPDATE {schema}.accounts SET value = $2, unit = $3 WHERE id = $1"
)

// way reads a row, lets work happen, and writes one more, under the token that
// ctx carries for it.
type way struct {
	claim func(s *site) func(context.Context, token.Token) error
	add   func(ctx context.Context, s *site, c change) error
}

// change is one read-modify-write.
type change struct {
	key, unit string
	work      func(seen int)
}

var ways = map[string]way{
	"sqlguard.Update": {claimPgx, addByUpdate},
	"sqlguard.On":     {claimPgx, addByOn},
	"sqlguard.Table":  {claimRow, addByTable},
	"stdsql.Update":   {claimStd, addByStd},
}

func claimPgx(s *site) func(context.Context, token.Token) error { return s.fence.Admit }
func claimRow(s *site) func(context.Context, token.Token) error { return s.table.Claim }
func claimStd(s *site) func(context.Context, token.Token) error { return s.std.Admit }

func addByUpdate(ctx context.Context, s *site, c change) error {
	return s.fence.Update(ctx, resource(c.key), func(tx pgx.Tx) error {
		var seen int
		if err := tx.QueryRow(ctx, s.selects, c.key).Scan(&seen); err != nil {
			return err
		}
		c.work(seen)
		_, err := tx.Exec(ctx, s.updates, c.key, seen+1, c.unit)
		return err
	})
}

func addByOn(ctx context.Context, s *site, c change) error {
	return s.addApart(ctx, c, func(seen int) error {
		_, err := s.fence.On(resource(c.key)).Exec(ctx, s.updates, c.key, seen+1, c.unit)
		return err
	})
}

func addByTable(ctx context.Context, s *site, c change) error {
	return s.addApart(ctx, c, func(seen int) error {
		return s.table.Update(ctx, c.key, sqlguard.Set{{"value", seen + 1}, {"unit", c.unit}})
	})
}

// addApart reads on a connection, and writes on another.
func (s *site) addApart(ctx context.Context, c change, write func(seen int) error) error {
	var seen int
	if err := s.pool.QueryRow(ctx, s.selects, c.key).Scan(&seen); err != nil {
		return err
	}
	c.work(seen)
	return write(seen)
}

func addByStd(ctx context.Context, s *site, c change) error {
	return s.std.Update(ctx, resource(c.key), func(tx *sql.Tx) error {
		var seen int
		if err := tx.QueryRowContext(ctx, s.selects, c.key).Scan(&seen); err != nil {
			return err
		}
		c.work(seen)
		_, err := tx.ExecContext(ctx, s.updates, c.key, seen+1, c.unit)
		return err
	})
}
