package stdsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"
)

// hooks are called by a driver around a database's own. A nil field has no effect.
type hooks struct {
	exec   func(query string) error  // before each statement without rows; its error replaces the result
	query  func(query string) string // returns the statement to send in place of another
	commit func(tx openTx) error     // in place of a commit
}

// openTx is a transaction of the wrapped driver.
type openTx struct {
	driver.Tx
	ctx  context.Context      // of BeginTx
	conn driver.ExecerContext // the connection of the transaction
}

// hooked returns another pool, over a driver with hooks.
func (db *database) hooked(t *testing.T, h *hooks) *sql.DB {
	t.Helper()
	return connectHooked(t, db.driver, db.dsn, h)
}

func connectHooked(t *testing.T, driver, dsn string, h *hooks) *sql.DB {
	t.Helper()
	plain := connect(t, driver, dsn)
	db := sql.OpenDB(&hookedConnector{dsn: dsn, driver: plain.Driver(), hooks: h})
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

type hookedConnector struct {
	dsn    string
	driver driver.Driver
	hooks  *hooks
}

func (c *hookedConnector) Driver() driver.Driver { return c.driver }

func (c *hookedConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &hookedConn{fullConn: conn.(fullConn), hooks: c.hooks}, nil
}

// fullConn has the methods that all three drivers have.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
}

type hookedConn struct {
	fullConn
	hooks *hooks
}

func (c *hookedConn) IsValid() bool {
	own, ok := c.fullConn.(driver.Validator)
	return !ok || own.IsValid()
}

func (c *hookedConn) CheckNamedValue(value *driver.NamedValue) error {
	if own, ok := c.fullConn.(driver.NamedValueChecker); ok {
		return own.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

func (c *hookedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.hooks.exec != nil {
		if err := c.hooks.exec(query); err != nil {
			return nil, err
		}
	}
	if c.hooks.query != nil {
		query = c.hooks.query(query)
	}
	return c.fullConn.ExecContext(ctx, query, args)
}

func (c *hookedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.hooks.query != nil {
		query = c.hooks.query(query)
	}
	return c.fullConn.QueryContext(ctx, query, args)
}

func (c *hookedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.fullConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return hookedTx{openTx: openTx{Tx: tx, ctx: ctx, conn: c.fullConn}, hooks: c.hooks}, nil
}

type hookedTx struct {
	openTx
	hooks *hooks
}

func (t hookedTx) Commit() error {
	if t.hooks.commit == nil {
		return t.openTx.Commit()
	}
	return t.hooks.commit(t.openTx)
}
