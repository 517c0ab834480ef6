package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/fencepost/fencepost/migrations"
)

type migrateUpCmd struct {
	migrateTarget
}

// Help is what --help says besides the flags.
func (migrateUpCmd) Help() string {
	return "It makes the schema too, where it is not there; the role will own it. Any number may run at once, and again. " +
		"It needs a session of its own: no pooler in transaction mode. A program's role then needs USAGE on the schema, and nothing else. " +
		"It lists what is there now and was not before; where several run at once, one has done it for all."
}

// Run is called by kong.
func (c *migrateUpCmd) Run(std streams) error {
	return c.use(func(ctx context.Context, db *sql.DB) error {
		lines, version, err := c.changed(ctx, db, migrations.Set.Up)
		nothing := fmt.Sprintf("nothing to do, at version %d", version)
		if err != nil {
			nothing = ""
		}
		return cmp.Or(err, c.tell(std.out, lines, "is there", nothing))
	})
}
