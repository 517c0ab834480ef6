package migrations

import "fmt"

// Dialect is a kind of database. The zero value is [Postgres].
type Dialect int

const (
	// Postgres is PostgreSQL, version 13 or newer.
	Postgres Dialect = iota
	// SQLite is SQLite, version 3.8.2 or newer for the table; package stdsql,
	// which writes to it, wants 3.24.
	SQLite
)

// String returns the name of the dialect's folder in [FS], as in "postgres".
func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "postgres"
	case SQLite:
		return "sqlite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) check() error {
	if d != Postgres && d != SQLite {
		return fmt.Errorf("migrations: unknown dialect %s", d)
	}
	return nil
}
