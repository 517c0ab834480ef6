// Package migrate is the command fencepost migrate: it applies, removes, lists, checks
// and prints the migrations of package migrations.
package migrate

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"time"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/migrations"
)

// Cmd is the command fencepost migrate.
type Cmd struct {
	Up     upCmd     `cmd:"" help:"Apply the missing migrations."`
	Down   downCmd   `cmd:"" help:"Remove the tables and functions. All marks are lost: tokens that were refused before would be admitted again."`
	Status statusCmd `cmd:"" help:"List the migrations with the time of each, and what is wrong. Exit status 1 if something is wrong."`
	Check  checkCmd  `cmd:"" help:"List what is wrong, with the rights of a program's own role. Exit status 1 if something is wrong."`
	Print  printCmd  `cmd:"" help:"Print the migrations as an SQL script, without a database."`
}

// Help is printed by --help below the usage line.
func (Cmd) Help() string {
	return `Manage Fencepost's tables and functions in a PostgreSQL, MySQL or MariaDB database. Programs can do the same with package migrations.

Examples:
  fencepost migrate up --postgres postgres://admin@db/shop
  FENCEPOST_MYSQL_DSN='admin:secret@tcp(db:3306)/shop' fencepost migrate up
  fencepost migrate check --postgres postgres://app@db/shop`
}

// errFindings is not printed: the findings are.
var errFindings = fmt.Errorf("the database is not fit: %w", cli.ErrNo)

// target has the flags of the commands that need a database.
type target struct {
	connect.Database
	JSON bool `name:"json" help:"Print one JSON object a line instead."`
}

// database is one that has answered.
type database struct {
	*sql.DB
	*connect.Server
	set migrations.Set
}

// application is the name that the server shows for the session.
const application = "fencepost migrate"

// withDatabase opens the database, and calls fn with a context that a signal ends.
func (t *target) withDatabase(fn func(ctx context.Context, db *database) error) error {
	return t.Use(application, func(ctx context.Context, server *connect.Server, pool *sql.DB) error {
		set := migrations.Set{Dialect: server.Dialect, Schema: server.Schema, DangerouslyTrustEngine: t.DangerouslyTrustEngine}
		return fn(ctx, &database{pool, server, set})
	})
}

// missingGrant adds to err the GRANT for the version table, if the server has denied it.
func (db *database) missingGrant(ctx context.Context, err error) error {
	const table = "fencepost_migrations"
	return db.MissingGrant(ctx, err, db, connect.Rights{Tables: []string{table}, MySQL: []engine.TableRights{{Table: table, Rights: "SELECT"}}})
}

// migration is one line of output.
type migration struct {
	Version   int64      `json:"version"`
	File      string     `json:"file"`
	AppliedAt *time.Time `json:"applied_at"`
}

func newMigration(m migrations.Migration) migration {
	line := migration{Version: m.Version, File: m.File}
	if !m.AppliedAt.IsZero() {
		line.AppliedAt = &m.AppliedAt
	}
	return line
}

// name is the file's name. The library has no file for a migration of a newer version.
func (m migration) name() string {
	if m.File == "" {
		return fmt.Sprintf("%05d (of a newer version)", m.Version)
	}
	return m.File
}

// print writes text, or value with --json.
func (t *target) print(out io.Writer, value any, text string) error {
	return cli.PrintResult(out, t.JSON, value, text+"\n")
}

type printCmd struct {
	Dialect string `default:"" enum:",postgres,mysql,sqlite" placeholder:"NAME" help:"The kind of database: postgres, mysql (also MariaDB) or sqlite. By default mysql with --mysql, and postgres otherwise."`
	Schema  string `placeholder:"NAME" help:"The schema in PostgreSQL, by default fencepost."`

	Postgres string `placeholder:"URL" env:"-" help:"Accepted because the other commands have it. No server is called."`
	MySQL    string `name:"mysql" placeholder:"DSN" env:"-" help:"Stands for --dialect=mysql. No server is called."`
}

// Help is printed by --help below the usage line.
func (printCmd) Help() string {
	return `For psql --single-transaction and other tools, on a database without Fencepost's tables. The script records no versions: ` +
		`up and down refuse the tables that it made, status reports them, and check works.

Examples:
  fencepost migrate print | psql --single-transaction postgres://admin@db/shop
  fencepost migrate print --dialect mysql | mysql shop`
}

// Run is called by kong.
func (c *printCmd) Run(std cli.Streams) error {
	if c.MySQL != "" {
		c.Dialect = cmp.Or(c.Dialect, migrations.MySQL.String())
	}
	set := migrations.Set{Schema: c.Schema}
	for _, d := range []migrations.Dialect{migrations.Postgres, migrations.MySQL, migrations.SQLite} {
		if d.String() == c.Dialect {
			set.Dialect = d
		}
	}
	script, err := set.SQL()
	if err != nil {
		return err
	}
	return cli.Print(std.Out, script)
}
