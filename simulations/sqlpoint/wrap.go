package sqlpoint

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
)

// Wrap returns a connector, for [sql.OpenDB], whose connections are those of
// base and tell what they do.
func Wrap(base driver.Connector) driver.Connector { return &connector{base} }

// Open is [sql.Open] with a connector of [Wrap]. Errors are those of sql.Open.
func Open(name, dsn string) (*sql.DB, error) {
	db, err := sql.Open(name, dsn) // connects to nothing: it is asked for its driver
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

// named is the connector of a driver that makes none.
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
	return direct(&conn{Conn: base}), nil
}

// Close is called by [sql.DB.Close].
func (c *connector) Close() error {
	if closer, ok := c.Connector.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}
