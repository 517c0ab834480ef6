package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/migrations"
)

type migrateStatusCmd struct {
	migrateTarget
}

// Help is what --help says besides the flags.
func (migrateStatusCmd) Help() string {
	return "It changes nothing. The role needs USAGE on the schema, and SELECT on its table fencepost_migrations; check needs less. " +
		"Tables that up did not make are a finding too. " +
		"Times are by the server's clock, in UTC."
}

// Run is called by kong.
func (c *migrateStatusCmd) Run(std streams) error {
	return c.use(func(ctx context.Context, db *sql.DB) error {
		status, err := c.set().Status(ctx, db)
		if errors.Is(err, migrations.ErrUnversioned) {
			return c.unversioned(ctx, db, std)
		}
		if err != nil {
			return lacking(err, func(missing *string) error {
				return db.QueryRowContext(ctx, rightsSQL, c.named(), []string{"fencepost_migrations"}, "").Scan(missing)
			})
		}
		missing := false
		for _, m := range status {
			line, when := newMigration(m), "missing"
			if line.AppliedAt != nil {
				when = m.AppliedAt.Format(time.DateTime)
			}
			if err := c.say(std.out, line, fmt.Sprintf("%-19s  %s", when, line.name())); err != nil {
				return err
			}
			missing = missing || line.AppliedAt == nil
		}
		if err := c.check(ctx, db, std); err != nil || !missing {
			return err
		}
		return errUnfit
	})
}

// unversioned says that somebody else keeps the versions, and what check finds.
func (c *migrateStatusCmd) unversioned(ctx context.Context, db *sql.DB, std streams) error {
	finding := "the tables of schema " + c.schema() + " are not those of migrate up: there is no table fencepost_migrations"
	var version int
	if err := db.QueryRowContext(ctx, "SELECT "+c.schema()+".version()").Scan(&version); err == nil {
		finding += fmt.Sprintf(", and version() says %d", version)
	}
	if err := c.wrong(std, finding+": keep to the tool that made them, and to migrate check"); err != nil {
		return err
	}
	return cmp.Or(c.check(ctx, db, std), errUnfit)
}

type migrateCheckCmd struct {
	migrateTarget
}

// Help is what --help says besides the flags.
func (migrateCheckCmd) Help() string {
	return "For a deployment, with the URL that the program will have: it reads the catalogs and calls one function, for which USAGE on the " +
		"schema suffices. Prints nothing where nothing is wrong."
}

// Run is called by kong.
func (c *migrateCheckCmd) Run(std streams) error {
	return c.use(func(ctx context.Context, db *sql.DB) error { return c.check(ctx, db, std) })
}

// check prints the findings.
func (t *migrateTarget) check(ctx context.Context, db *sql.DB, std streams) error {
	err := t.set().Check(ctx, db)
	var found *migrations.CheckError
	if !errors.As(err, &found) {
		return err
	}
	for _, finding := range found.Findings {
		if err := t.wrong(std, finding); err != nil {
			return err
		}
	}
	return errUnfit
}

func (t *migrateTarget) wrong(std streams, finding string) error {
	return t.say(std.out, map[string]string{"finding": finding}, "wrong: "+finding)
}
