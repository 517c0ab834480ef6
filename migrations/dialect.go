package migrations

import "fmt"

// Dialect is a kind of database. The zero value is [Postgres].
type Dialect int

const (
	// Postgres is PostgreSQL, version 13 or newer.
	Postgres Dialect = iota
	// MySQL is MySQL, version 5.7 or newer, and MariaDB, version 10.2 or newer.
	// Run so far on MariaDB 10.11 alone.
	MySQL
	// SQLite is SQLite, version 3.8.2 or newer for the table; package stdsql,
	// which writes to it, wants 3.24.
	SQLite
)

// String returns the name of the dialect's folder in [FS], as in "postgres".
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "postgres"
	case MySQL:
		return "mysql"
	case SQLite:
		return "sqlite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) check() error {
	if d < Postgres || d > SQLite {
		return fmt.Errorf("migrations: unknown dialect %s", d)
	}
	return nil
}
