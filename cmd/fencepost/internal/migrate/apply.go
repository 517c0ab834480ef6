package migrate

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/cmd/fencepost/internal/connect"
	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/migrations"
)

// changeCmd has the flags of the commands that change the database.
type changeCmd struct {
	target

	Wait time.Duration `default:"1m" help:"How long to wait for another up or down, at least 1ms. On MySQL in whole seconds."`
}

type upCmd struct {
	changeCmd
}

// Help is printed by --help below the usage line.
func (upCmd) Help() string {
	return `Prints the migrations that are applied now and were not before. Any number of processes may run it at the same time: one applies ` +
		`the migrations, the others wait for at most --wait, and each prints all of them. It needs the server's own address: it refuses a pooler in transaction mode, which breaks its lock.

On PostgreSQL it creates the schema if it does not exist, and the role owns it. A program's role then needs USAGE on the schema. ` +
		`On MySQL the database must exist. A program's account then needs SELECT, INSERT and UPDATE on fencepost_marks, and SELECT on fencepost_floor.

Examples:
  fencepost migrate up --postgres postgres://admin@db/shop --schema billing
  FENCEPOST_MYSQL_DSN='admin:secret@tcp(db:3306)/shop' fencepost migrate up`
}

// Run is called by kong.
func (c *upCmd) Run(std cli.Streams) error {
	return c.withDatabase(func(ctx context.Context, db *database) error {
		lines, version, err := c.changed(ctx, std, db, migrations.Set.Up)
		nothing := fmt.Sprintf("nothing to do, at version %d\n", version)
		return c.printChanges(std.Out, lines, "applied", nothing, err)
	})
}

type downCmd struct {
	changeCmd

	Confirm string `placeholder:"NAME" help:"Do not ask for the name: it is the schema's on PostgreSQL, and the database's on MySQL."`
}

// Help is printed by --help below the usage line.
func (downCmd) Help() string {
	return `Stop all writers first. The command asks for the name of the schema, or of the database on MySQL. ` +
		`It removes nothing while tables are protected.

Examples:
  fencepost migrate down --postgres postgres://admin@db/shop
  FENCEPOST_MYSQL_DSN='admin:secret@tcp(db:3306)/shop' fencepost migrate down --confirm shop`
}

// Run is called by kong. A signal during the prompt ends the process: signals are caught
// only when the database is opened.
func (c *downCmd) Run(std cli.Streams) error {
	server, err := c.Server(application)
	if err != nil {
		return err
	}
	if err := c.confirm(std, server); err != nil {
		return err
	}
	return c.withDatabase(func(ctx context.Context, db *database) error {
		lines, _, err := c.changed(ctx, std, db, migrations.Set.Down)
		slices.Reverse(lines) // in the order of their removal
		return c.printChanges(std.Out, lines, "removed", "nothing to remove: no migration was applied in "+db.String()+"\n", err)
	})
}

func (c *downCmd) confirm(std cli.Streams, server *connect.Server) error {
	typed := c.Confirm
	if typed == "" {
		what, kind := server.String(), "database"
		if server.Dialect == engine.Postgres {
			what, kind = what+" of database "+pgx.Identifier{server.Database}.Sanitize(), "schema"
		}
		fmt.Fprintf(std.Err, "This removes Fencepost's tables from %s at %s.\n"+
			"All marks are lost: tokens that were refused before would be admitted again. Stop all writers first.\n"+
			"Type the %s's name to go on: ", what, server.Address, kind)
		typed, _ = cli.ReadLine(context.Background(), std) // its only error is the context's
	}
	if typed != server.Name() {
		return fmt.Errorf("nothing was changed: %q is not the name of %s", typed, server)
	}
	return nil
}

// changed calls work, and returns the migrations whose state has changed, also after an
// error, and the version of the database. They include what another process changed
// while work waited for the lock.
func (c *changeCmd) changed(ctx context.Context, std cli.Streams, db *database, work func(migrations.Set, context.Context, *sql.DB) error) (
	lines []migration, version int64, err error) {
	if c.Wait < time.Millisecond {
		return nil, 0, fmt.Errorf("wait: %s: must be at least 1ms", c.Wait)
	}
	before, err := db.set.Status(ctx, db.DB)
	if err != nil {
		return nil, 0, err
	}
	was := map[int64]bool{}
	for _, m := range before {
		was[m.Version] = !m.AppliedAt.IsZero()
	}
	db.set.WaitTimeout = time.Millisecond // enough to find another one
	failed := work(db.set, ctx, db.DB)
	var locked *migrations.LockedError
	if errors.As(failed, &locked) && ctx.Err() == nil {
		fmt.Fprintf(std.Err, "fencepost: waiting for %s at most: another up or down has the lock: %s\n", c.Wait, cli.Visible(locked.Holder))
		db.set.WaitTimeout = c.Wait
		failed = work(db.set, ctx, db.DB)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connect.Timeout)
	defer cancel()
	after, err := db.set.Status(ctx, db.DB)
	for _, m := range after {
		if !m.AppliedAt.IsZero() {
			version = m.Version
		}
		if line := newMigration(m); was[m.Version] != (line.AppliedAt != nil) {
			lines = append(lines, line)
		}
	}
	if failed != nil {
		err = failed
	}
	return lines, version, err
}

// printChanges prints the changed migrations, and returns failed or its own error. If there
// are none it prints the text nothing, unless --json is set: the lines of --json are
// migrations only.
func (t *target) printChanges(out io.Writer, lines []migration, become, nothing string, failed error) error {
	for _, line := range lines {
		if err := t.print(out, line, become+"  "+line.name()); err != nil {
			return cmp.Or(failed, err)
		}
	}
	if failed != nil || len(lines) > 0 || t.JSON {
		return failed
	}
	return cli.Print(out, nothing)
}
