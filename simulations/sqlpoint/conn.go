package sqlpoint

import (
	"context"
	"database/sql/driver"

	"github.com/fencepost/fencepost/internal/point"
)

// conn has every optional interface but two, for which there is direct. Where
// the driver's own lacks one, it answers what makes database/sql do as if it
// lacked it too.
type conn struct {
	driver.Conn
	open   *transaction // that somebody listens to
	inside bool         // a transaction, whether or not somebody does
}

var (
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
)

// Unwrap returns the driver's own.
func (c *conn) Unwrap() driver.Conn { return c.Conn }

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.end(point.Undone)
	return err
}

func (c *conn) Ping(ctx context.Context) error {
	if base, ok := c.Conn.(driver.Pinger); ok {
		return base.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if base, ok := c.Conn.(driver.SessionResetter); ok {
		return base.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	base, ok := c.Conn.(driver.Validator)
	return !ok || base.IsValid()
}

func (c *conn) CheckNamedValue(value *driver.NamedValue) error {
	if base, ok := c.Conn.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	base, ok := c.Conn.(driver.ConnPrepareContext)
	if ok {
		prepared, err := base.PrepareContext(ctx, query)
		return c.prepared(query, prepared, err)
	}
	prepared, err := c.Conn.Prepare(query)
	if err == nil && ctx.Err() != nil {
		_ = prepared.Close()
		return nil, ctx.Err()
	}
	return c.prepared(query, prepared, err)
}
