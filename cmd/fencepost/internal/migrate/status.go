package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/internal/engine"
	"github.com/fencepost/fencepost/migrations"
)

type statusCmd struct {
	target
}

// Help is printed by --help below the usage line.
func (statusCmd) Help() string {
	return `Changes nothing. The role needs SELECT on the table fencepost_migrations, and on PostgreSQL USAGE on the schema; check needs ` +
		`less. Tables that another tool has made are reported too. Times are the server's, in UTC.

Example:
  fencepost migrate status --postgres postgres://admin@db/shop`
}

// Run is called by kong.
func (c *statusCmd) Run(std cli.Streams) error {
	return c.withDatabase(func(ctx context.Context, db *database) error {
		status, err := db.set.Status(ctx, db.DB)
		if errors.Is(err, migrations.ErrUnversioned) {
			return c.unversioned(ctx, db, std)
		}
		if err != nil {
			return db.missingGrant(ctx, err)
		}
		missing := false
		for _, m := range status {
			line, when := newMigration(m), "missing"
			if line.AppliedAt != nil {
				when = m.AppliedAt.Format(time.RFC3339)
			}
			if err := c.print(std.Out, line, fmt.Sprintf("%-20s  %s", when, line.name())); err != nil {
				return err
			}
			missing = missing || line.AppliedAt == nil
		}
		if err := c.check(ctx, db, std); err != nil || !missing {
			return err
		}
		return errFindings
	})
}

// unversioned prints that migrate up has not made the tables, and what check finds.
func (c *statusCmd) unversioned(ctx context.Context, db *database, std cli.Streams) error {
	finding := "migrate up has not made the tables of " + db.String() + ": there is no table fencepost_migrations"
	if db.Dialect == engine.MySQL { // information_schema lists only tables on which the account has a right
		finding += " that this account can see"
	} else {
		var version int
		row := db.QueryRowContext(ctx, "SELECT "+pgx.Identifier{db.Schema}.Sanitize()+".version()")
		if err := row.Scan(&version); err == nil {
			finding += fmt.Sprintf(", and version() is %d", version)
		}
	}
	if err := c.printFinding(std, finding+": apply new versions with the tool that made them, and use migrate check"); err != nil {
		return err
	}
	return cmp.Or(c.check(ctx, db, std), errFindings)
}

type checkCmd struct {
	target
}

// Help is printed by --help below the usage line.
func (checkCmd) Help() string {
	return `For a deployment, with the URL or DSN of the program: its role needs no more rights than the program does. Changes nothing, and ` +
		`prints nothing if nothing is wrong.

Examples:
  fencepost migrate check --postgres postgres://app@db/shop
  FENCEPOST_MYSQL_DSN='app:secret@tcp(db:3306)/shop' fencepost migrate check`
}

// Run is called by kong.
func (c *checkCmd) Run(std cli.Streams) error {
	return c.withDatabase(func(ctx context.Context, db *database) error { return c.check(ctx, db, std) })
}

// check prints the findings.
func (t *target) check(ctx context.Context, db *database, std cli.Streams) error {
	err := db.set.Check(ctx, db.DB)
	var found *migrations.CheckError
	if !errors.As(err, &found) {
		return err
	}
	for _, finding := range found.Findings {
		if err := t.printFinding(std, finding); err != nil {
			return err
		}
	}
	return errFindings
}

func (t *target) printFinding(std cli.Streams, finding string) error {
	return t.print(std.Out, map[string]string{"finding": finding}, "wrong: "+finding)
}
