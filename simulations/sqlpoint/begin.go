package sqlpoint

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/fencepost/fencepost/internal/point"
)

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.begin(ctx)
	begun, err := c.beginTx(ctx, opts)
	if err != nil {
		c.end(point.Undone)
		return nil, err
	}
	c.inside = true
	return &tx{Tx: begun, conn: c}, nil
}

// beginTx does what database/sql does for a driver that knows no options.
func (c *conn) beginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if base, ok := c.Conn.(driver.ConnBeginTx); ok {
		return base.BeginTx(ctx, opts)
	}
	switch {
	case opts.Isolation != driver.IsolationLevel(sql.LevelDefault):
		return nil, errors.New("sql: driver does not support non-default isolation level")
	case opts.ReadOnly:
		return nil, errors.New("sql: driver does not support read-only transactions")
	}
	begun, err := c.Begin()
	if err == nil && ctx.Err() != nil {
		_ = begun.Rollback()
		return nil, ctx.Err()
	}
	return begun, err
}

type tx struct {
	driver.Tx
	conn *conn
}

func (t *tx) Commit() error {
	t.conn.tell(point.Commit)
	err := t.Tx.Commit()
	t.conn.settle(err)
	return err
}

func (t *tx) Rollback() error {
	err := t.Tx.Rollback()
	t.conn.end(point.Undone)
	return err
}
