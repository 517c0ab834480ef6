package sqlpoint

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// Wrap returns a connector, for [sql.OpenDB], whose connections are those of base and
// report their steps.
func Wrap(base driver.Connector) driver.Connector { return &connector{base} }

// Open is [sql.Open] with a connector of [Wrap]. It returns the errors of sql.Open.
func Open(name, dsn string) (*sql.DB, error) {
	db, err := sql.Open(name, dsn) // it connects to nothing, and has the driver
	if err != nil {
		return nil, err
	}
	d := db.Driver()
	if err := db.Close(); err != nil {
		return nil, err
	}
	var base driver.Connector = &named{d, dsn}
	if opener, ok := d.(driver.DriverContext); ok {
		if base, err = opener.OpenConnector(dsn); err != nil {
			return nil, err
		}
	}
	return sql.OpenDB(Wrap(base)), nil
}

// named is the connector for a driver that is not a [driver.DriverContext].
type named struct {
	driver driver.Driver
	dsn    string
}

func (n *named) Driver() driver.Driver { return n.driver }

func (n *named) Connect(context.Context) (driver.Conn, error) { return n.driver.Open(n.dsn) }

type connector struct{ driver.Connector }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	base, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := base.(driver.ConnBeginTx); !ok {
		return nil, errors.Join(fmt.Errorf("sqlpoint: %T has no BeginTx", base), base.Close())
	}
	return direct(&conn{Conn: base, source: c}), nil
}

// Close implements [io.Closer]. [sql.DB.Close] calls it.
func (c *connector) Close() error {
	if closer, ok := c.Connector.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// conn has every optional interface except two, which direct adds. If the driver's
// connection lacks an interface, its method returns what makes database/sql act as if
// conn lacked it too.
type conn struct {
	driver.Conn
	source any          // its connector
	open   *transaction // with a listener
	inTx   bool         // it is in a transaction, with or without a listener
}

var (
	_ driver.ConnBeginTx        = (*conn)(nil)
	_ driver.ConnPrepareContext = (*conn)(nil)
	_ driver.NamedValueChecker  = (*conn)(nil)
	_ driver.Pinger             = (*conn)(nil)
	_ driver.SessionResetter    = (*conn)(nil)
	_ driver.Validator          = (*conn)(nil)
)

// Unwrap returns the driver's connection.
func (c *conn) Unwrap() driver.Conn { return c.Conn }

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.end(failpoint.Undone)
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
	if base, ok := c.Conn.(driver.ConnPrepareContext); ok {
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

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.begin(ctx)
	begun, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	if err != nil {
		c.end(failpoint.Undone)
		return nil, err
	}
	c.inTx = true
	return &tx{Tx: begun, conn: c}, nil
}

type tx struct {
	driver.Tx
	conn *conn
}

func (t *tx) Commit() error {
	t.conn.report(failpoint.Commit)
	err := t.conn.dropReply(t.Tx.Commit())
	t.conn.finish(err)
	return err
}

func (t *tx) Rollback() error {
	err := t.Tx.Rollback()
	t.conn.end(failpoint.Undone)
	return err
}

// direct returns c with the methods for unprepared statements that the driver's
// connection has. If direct added one that the driver lacks, to return [driver.ErrSkip],
// database/sql would check the arguments before it prepares the statement, whose
// NamedValueChecker may differ.
func direct(c *conn) driver.Conn {
	_, executes := c.Conn.(driver.ExecerContext)
	_, queries := c.Conn.(driver.QueryerContext)
	switch {
	case executes && queries:
		return &both{c, execer{c}, queryer{c}}
	case executes:
		return &execer{c}
	case queries:
		return &queryer{c}
	}
	return c
}

type (
	execer  struct{ *conn }
	queryer struct{ *conn }
	both    struct {
		*conn
		execer
		queryer
	}
)

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	base := e.Conn.(driver.ExecerContext)
	return e.exec(ctx, query, func() (driver.Result, error) { return base.ExecContext(ctx, query, args) })
}

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	base := q.Conn.(driver.QueryerContext)
	return q.query(ctx, query, func() (driver.Rows, error) { return base.QueryContext(ctx, query, args) })
}
