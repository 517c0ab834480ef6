package stdsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/stretchr/testify/require"
)

// hooks are called by a driver around SQLite's. Fields that are nil are passed
// over.
type hooks struct {
	exec   func(query string) error // before each statement that returns no rows, in place of one that fails
	commit func(tx openTx) error    // in place of a commit
}

// openTx is a transaction of SQLite's driver.
type openTx struct {
	driver.Tx
	ctx  context.Context      // of BeginTx
	conn driver.ExecerContext // that it is open on
}

func connectHooked(t *testing.T, dsn string, h *hooks) *sql.DB {
	t.Helper()
	plain := connect(t, dsn)
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
	return &hookedConn{sqliteConn: conn.(sqliteConn), hooks: c.hooks}, nil
}

type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type hookedConn struct {
	sqliteConn
	hooks *hooks
}

func (c *hookedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.hooks.exec != nil {
		if err := c.hooks.exec(query); err != nil {
			return nil, err
		}
	}
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c *hookedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.sqliteConn.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return hookedTx{openTx: openTx{Tx: tx, ctx: ctx, conn: c.sqliteConn}, hooks: c.hooks}, nil
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
